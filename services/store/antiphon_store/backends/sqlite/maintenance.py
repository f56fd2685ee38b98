"""Maintenance of a SQLite file: lists and erases its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

from antiphon_store.backends import named_queries
from antiphon_store.backends.sql_maintenance import SqlMaintenance
from antiphon_store.backends.sqlite.connection import statements

QUERIES = named_queries.load("antiphon_store.backends.sqlite", "maintenance.sql")

Run = Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]


class SqliteMaintenance(SqlMaintenance):
    """Lists and erases rows. `read` and `write` run a function in a transaction of the backend."""

    def __init__(self, read: Run, write: Run) -> None:
        super().__init__(
            lambda name, values: read(lambda connection: connection.execute(QUERIES[name], values).fetchall()),
            lambda name, values: write(lambda connection: _erase(connection, QUERIES[name], values)),
        )


def _erase(connection: sqlite3.Connection, script: str, values: dict[str, Any]) -> int:
    """Deletes rows, overwrites their bytes, and returns how many there were."""
    connection.execute("PRAGMA secure_delete = ON")
    try:
        return sum(connection.execute(each, values).rowcount for each in statements(script))
    finally:
        connection.execute("PRAGMA secure_delete = OFF")
