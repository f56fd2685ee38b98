"""The statements of queries.sql, by name."""

from __future__ import annotations

from functools import lru_cache

from antiphon_store.backends import named_queries

QUERIES = named_queries.load("antiphon_store.backends.postgres")
QUERIES["page_backwards"] = QUERIES["page_forwards"].replace("(at, id) >", "(at, id) <").replace(" ASC", " DESC")


@lru_cache(maxsize=32)
def fetch(*parts: str) -> str:
    """Joins named parts of a read and the part for the time into one statement."""
    return " UNION ALL ".join(QUERIES[f"fetch_{each}"].rstrip(";") for each in (*parts, "time"))
