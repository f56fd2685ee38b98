"""The statements of queries.sql, by name."""

from __future__ import annotations

from functools import lru_cache

from antiphon_store.backends import named_queries

QUERIES = named_queries.load("antiphon_store.backends.postgres")
QUERIES["page_backwards"] = QUERIES["page_forwards"].replace("(at, id) >", "(at, id) <").replace(" ASC", " DESC")

FUNCTIONS = {
    "gets": "got_rows(part ->> 1, part ->> 2, part -> 3)",
    "chains": "chain_rows(part ->> 1, part ->> 2, now_ms, part -> 3, false)",
    "ranges": "range_rows(part ->> 1, part ->> 2, part -> 3)",
}
"""The functions that read parts of programs, by the names of parameters."""
QUERIES |= {
    name: QUERIES["fetch_part"].replace("PARTS", name).replace("FUNCTION", function)
    for name, function in FUNCTIONS.items()
}
del QUERIES["fetch_part"]


@lru_cache(maxsize=8)
def fetch(*names: str) -> str:
    """Joins the reads of some parts and that of the time into one statement."""
    return " UNION ALL ".join(QUERIES[name].rstrip(";") for name in (*names, "fetch_time"))
