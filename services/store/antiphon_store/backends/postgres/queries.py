"""The statements of queries.sql and of each topic's file, by name."""

from __future__ import annotations

from antiphon_store.backends import named_queries

_FILES = ("queries.sql", "event_logs.sql", "jobs.sql", "lineage.sql")

QUERIES = {
    name: statement
    for file in _FILES
    for name, statement in named_queries.load("antiphon_store.backends.postgres", file).items()
}
