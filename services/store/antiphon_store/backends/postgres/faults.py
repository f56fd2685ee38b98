"""Maps PostgreSQL's errors to errors of `antiphon_core.errors`."""

from __future__ import annotations

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from antiphon_core.errors import AntiphonError
from antiphon_store.backends.faults import report, report_damage

_DISK_FULL = "53100"

# Temporary errors and those that an operator can mend, by SQLSTATE or by its class (its first two characters).
# The whole SQLSTATE is looked up first.
_UNAVAILABLE = {
    "08": "the connection to its database was lost",
    "25006": "its database is read-only",
    "28": "its database rejects the user or the password",
    "3D000": "its database does not exist",
    "40": "transactions conflicted",
    "42501": "its database's user lacks a permission",
    "42P01": "its tables do not exist",
    "53": "its database is out of resources",
    _DISK_FULL: "its database's disk is full",
    "53300": "its database has too many connections",
    "55P03": "another writer held a lock for too long",
    "57": "its database is starting or stopping",
    "57014": "its database took too long to answer",
    "58": "its database reports an error of its operating system",
    "XX001": "its database is damaged",
    "XX002": "its database is damaged",
}
_DAMAGED = ("22", "P0002")
"""Errors that the store's own programs never cause: a stored row has no number where one is expected (22), or the row
of a parent is missing when its child gets a place (P0002; `new_place` in schema.py)."""
_LOST = ("08", "57P")  # the connection was lost: the transaction may have been committed


def has_changed_nothing(error: AntiphonError) -> bool:
    """Whether the error proves that the server rolled the transaction back."""
    cause = error.__cause__
    state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
    return state is not None and not state.startswith(_LOST)


def translate(error: psycopg.Error) -> AntiphonError:
    """Logs a database error, and returns the error for the caller."""
    state = error.sqlstate
    if state is not None and state.startswith(_DAMAGED):
        return report_damage("postgresql", error, state)
    return report("postgresql", error, state or type(error).__name__, _reason(error), is_full=state == _DISK_FULL)


def _reason(error: psycopg.Error) -> str | None:
    if error.sqlstate is not None:
        return _UNAVAILABLE.get(error.sqlstate) or _UNAVAILABLE.get(error.sqlstate[:2])
    if isinstance(error, PoolTimeout):
        return "no connection to its database was free in time"
    if isinstance(error, PoolClosed):
        return "it is closed"
    if isinstance(error, psycopg.OperationalError):  # no SQLSTATE: the server did not answer
        return "its database cannot be reached"
    return None
