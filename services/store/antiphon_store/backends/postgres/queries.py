"""The statements of queries.sql, by name."""

from __future__ import annotations

from antiphon_store.backends import named_queries

QUERIES = named_queries.load("antiphon_store.backends.postgres")
