"""SQLite's own errors end here: each is logged and becomes one of ours."""

from __future__ import annotations

import logging
import sqlite3

from antiphon_core.errors import AntiphonError, InternalError, StoreUnavailable
from antiphon_core.telemetry import remedies
from antiphon_store.backends.sqlite.reserve import is_full

log = logging.getLogger(__name__)

# Primary result codes that pass, or that an operator can make pass.
_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "another process is writing to it",
    sqlite3.SQLITE_LOCKED: "another process is writing to it",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
    sqlite3.SQLITE_READONLY: "its file is read-only",
    sqlite3.SQLITE_PERM: "its file may not be used",
    sqlite3.SQLITE_NOTADB: "its file is not an SQLite database",
    sqlite3.SQLITE_CORRUPT: "its file is damaged",
}


def no_room() -> StoreUnavailable:
    """The error of a write that brings new rows, where there is no room for them."""
    return StoreUnavailable(f"The store cannot be used: {_UNAVAILABLE[sqlite3.SQLITE_FULL]}.", full=True)


def translate(error: sqlite3.Error) -> AntiphonError:
    """Logs a database error, with a traceback where it may be our bug, and returns the one that the caller gets."""
    code = getattr(error, "sqlite_errorcode", None)
    reason = _UNAVAILABLE.get(code & 0xFF) if code is not None else None
    log.error(
        "sqlite: %s (%s)",
        error,
        getattr(error, "sqlite_errorname", "no code"),
        exc_info=error if reason is None else None,
        extra=remedies.CHECK_DATABASE,
    )
    if reason is not None:
        return StoreUnavailable(f"The store cannot be used: {reason}.", full=is_full(error) or None)
    return InternalError("The store failed. Its log says why.")
