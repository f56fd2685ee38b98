"""Backups of a SQLite store with SQLite's backup API, which makes a SQLite file.

The reading connection stays in one transaction meanwhile. So the copy is a snapshot, writes do not make it start again,
and writers do not wait: their changes stay in the write-ahead log until the copy is done.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from antiphon.operations.files import OperationError, new_file
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.faults import translate
from antiphon_store.backends.sqlite.schema import require_ours
from antiphon_store.rows.maintenance import Progress

PAGES_AT_ONCE = 1024  # of 8 KiB, between two calls of `on_progress`


async def backup(path: Path, file: Path, on_progress: Progress, *, pages_at_once: int = PAGES_AT_ONCE) -> None:
    """Writes a snapshot of everything that was committed before the call, while clients read and write. Raises
    OSError, OperationError, StoreUnavailable."""
    await asyncio.to_thread(_copy, path, file, "rw", on_progress, pages_at_once)


async def restore(path: Path, file: Path, on_progress: Progress) -> None:
    """Makes the file of a store from a backup. OperationError: the store exists, or the file is not a backup of
    SQLite. Raises OSError and StoreUnavailable, too."""
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True, mode=0o700)
    await asyncio.to_thread(_require_no_log, path)
    await asyncio.to_thread(_copy, file, path, "ro", on_progress, PAGES_AT_ONCE)


def _require_no_log(path: Path) -> None:
    """Checks that no log of a former file lies beside the new one: SQLite would write it into the new file, and so undo
    the restore."""
    for each in (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-journal")):
        if each.exists() and not path.exists():
            raise OperationError(f"{each} is left of a former file. Move it away with that file first.")


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
