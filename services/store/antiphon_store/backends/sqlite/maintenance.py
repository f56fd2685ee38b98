"""Maintenance of a SQLite file: lists its rows, makes backups and restores them.

SQLite's backup API makes the backup, which is a SQLite file, too. The reading connection stays in one transaction
meanwhile. So the copy is a snapshot, writes do not make it start again, and writers do not wait: their changes stay in
the write-ahead log until the copy is done.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends import named_queries
from antiphon_store.backends.sql_maintenance import SqlMaintenance
from antiphon_store.backends.sqlite.connection import statements
from antiphon_store.backends.sqlite.faults import translate
from antiphon_store.backends.sqlite.schema import require_ours
from antiphon_store.operations.files import OperationError, new_file
from antiphon_store.rows.maintenance import Progress

QUERIES = named_queries.load("antiphon_store.backends.sqlite", "maintenance.sql")

Run = Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]


class SqliteMaintenance(SqlMaintenance):
    """Maintenance of the file `path`. `read` and `write` run a function in a transaction of the backend."""

    def __init__(self, path: Path, read: Run, write: Run) -> None:
        super().__init__(
            lambda name, values: read(lambda connection: connection.execute(QUERIES[name], values).fetchall()),
            lambda name, values: write(lambda connection: _erase(connection, QUERIES[name], values)),
        )
        self._path = path
        self.pages_at_once = 1024  # of 8 KiB, between two calls of `on_progress`

    async def backup(self, file: Path, on_progress: Progress) -> None:
        await asyncio.to_thread(_copy, self._path, file, "rw", on_progress, self.pages_at_once)

    async def restore(self, file: Path, on_progress: Progress) -> None:
        await asyncio.to_thread(self._path.parent.mkdir, parents=True, exist_ok=True, mode=0o700)
        await asyncio.to_thread(_require_no_log, self._path)
        await asyncio.to_thread(_copy, file, self._path, "ro", on_progress, self.pages_at_once)


def _require_no_log(path: Path) -> None:
    """Checks that no log of a former file lies beside the new one: SQLite would write it into the new file, and so undo
    the restore."""
    for each in (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-journal")):
        if each.exists() and not path.exists():
            raise OperationError(f"{each} is left of a former file. Move it away with that file first.")


def _erase(connection: sqlite3.Connection, script: str, values: dict[str, Any]) -> int:
    """Deletes rows, overwrites their bytes, and returns how many there were."""
    connection.execute("PRAGMA secure_delete = ON")
    try:
        return sum(connection.execute(each, values).rowcount for each in statements(script))
    finally:
        connection.execute("PRAGMA secure_delete = OFF")


def _copy(source: Path, target: Path, mode: str, on_progress: Progress, pages: int) -> None:
    """Copies a file of the store."""
    if not source.exists():
        raise OperationError(f"{source} does not exist.")
    try:
        with new_file(target) as draft, closing(_connect(source, mode)) as reading:
            reading.execute("BEGIN")
            if require_ours(reading) is None:
                raise OperationError(f"{source} is empty.")
            with closing(sqlite3.connect(draft)) as writing:
                reading.backup(writing, pages=pages, progress=lambda *_counts: on_progress(pages))
                writing.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
                _require_whole(writing, source)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise OperationError(f"{source} is not a SQLite store.") from error
        raise translate(error) from error
    except StoreUnavailable as error:
        raise OperationError(f"{source}: {error}") from error


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, isolation_level=None)


def _require_whole(connection: sqlite3.Connection, source: Path) -> None:
    """Checks that the copy is not damaged."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise OperationError(f"{source} is damaged: {found}.")
