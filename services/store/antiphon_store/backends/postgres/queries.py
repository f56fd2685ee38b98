"""The statements of queries.sql and of each topic's file, by name."""

from __future__ import annotations

from antiphon_store.backends import named_queries

FILES = (
    "queries.sql",
    "turns.sql",
    "event_logs.sql",
    "jobs.sql",
    "lineage.sql",
    "conversations.sql",
    "sweeping.sql",
    "spending.sql",
)

QUERIES = {
    name: statement
    for file in FILES
    for name, statement in named_queries.load("antiphon_store.backends.postgres", file).items()
}
