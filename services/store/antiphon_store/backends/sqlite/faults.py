"""Maps SQLite's errors to errors of `antiphon_core.errors`."""

from __future__ import annotations

import sqlite3

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_store.backends.faults import report

# Primary result codes of temporary errors and of those that an operator can mend, with the reason in words.
_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "another process is writing to it",
    sqlite3.SQLITE_LOCKED: "another process is writing to it",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
    sqlite3.SQLITE_READONLY: "its file is read-only",
    sqlite3.SQLITE_PERM: "access to its file is not permitted",
    sqlite3.SQLITE_NOTADB: "its file is not an SQLite database",
    sqlite3.SQLITE_CORRUPT: "its file is damaged",
}


def translate(error: sqlite3.Error) -> AntiphonError:
    """Logs a database error, and returns the error for the caller."""
    code = getattr(error, "sqlite_errorcode", None)
    reason = _UNAVAILABLE.get(code & 0xFF) if code is not None else None
    return report("sqlite", error, getattr(error, "sqlite_errorname", "no code"), reason, is_full=is_full(error))


def is_full(error: Exception) -> bool:
    """Whether the disk is full."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_FULL


def no_room() -> StoreUnavailable:
    """The error of a write that adds rows on a full disk."""
    return StoreUnavailable(f"The store cannot be used: {_UNAVAILABLE[sqlite3.SQLITE_FULL]}.", full=True)
