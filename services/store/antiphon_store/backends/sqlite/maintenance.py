"""Maintenance of a file: what it holds, and copies of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from antiphon_store.backends import named_queries
from antiphon_store.backends.sql_maintenance import SqlMaintenance
from antiphon_store.backends.sqlite import backups
from antiphon_store.backends.sqlite.connection import statements
from antiphon_store.rows.maintenance import Progress

QUERIES = named_queries.load("antiphon_store.backends.sqlite", "maintenance.sql")

Run = Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]


class SqliteMaintenance(SqlMaintenance):
    """`read` and `write` run a function in a transaction of the backend's."""

    def __init__(self, path: Path, read: Run, write: Run) -> None:
        super().__init__(
            lambda name, values: read(lambda connection: connection.execute(QUERIES[name], values).fetchall()),
            lambda name, values: write(lambda connection: _erase(connection, QUERIES[name], values)),
        )
        self._path = path

    async def backup(self, file: Path, on_progress: Progress) -> None:
        await backups.backup(self._path, file, on_progress)

    async def restore(self, file: Path, on_progress: Progress) -> None:
        await backups.restore(file, self._path, on_progress)


def _erase(connection: sqlite3.Connection, script: str, values: dict[str, Any]) -> int:
    """How many lines the statements took away. Their bytes are overwritten."""
    connection.execute("PRAGMA secure_delete = ON")
    count = sum(connection.execute(each, values).rowcount for each in statements(script))
    connection.execute("PRAGMA secure_delete = OFF")
    return count
