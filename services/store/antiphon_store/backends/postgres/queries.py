"""The statements of queries.sql, by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from antiphon_store.backends import named_queries
from antiphon_store.rows.model import Index

QUERIES = named_queries.load("antiphon_store.backends.postgres")
QUERIES["page_backwards"] = QUERIES["page_forwards"].replace("(at, id) >", "(at, id) <").replace(" ASC", " DESC")

_LISTED = {
    Index.LEVEL: ("place & 4294967295", "created", "id"),
    Index.CREATED: ("created", "id"),
}
"""The columns by which an index of all nodes is sorted; they are indexed together."""


def _pages_of_listed() -> Iterator[tuple[str, str]]:
    """The statements that read pages of indexes of all nodes, forwards and backwards, with their names."""
    for index, columns in _LISTED.items():
        after = ", ".join(f"%(after_{number})s" for number in range(len(columns)))
        for way, direction, beyond in (("forwards", "ASC", ">"), ("backwards", "DESC", "<")):
            ordered = ", ".join(f"{each} {direction}" for each in columns)
            statement = QUERIES["page_of_listed"].replace("(COLUMNS) >", f"({', '.join(columns)}) {beyond}")
            yield f"{index}_{way}", statement.replace("AFTER", after).replace("SORTED", ordered)


QUERIES |= dict(_pages_of_listed())
del QUERIES["page_of_listed"]

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
