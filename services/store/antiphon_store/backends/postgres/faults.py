"""PostgreSQL's own errors, in words."""

from __future__ import annotations

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from antiphon_core.errors import AntiphonError
from antiphon_store.backends.faults import report

# SQLSTATEs, or their first two digits, of what passes or what an operator can make pass. The longer one counts.
_UNAVAILABLE = {
    "08": "the connection to its database was lost",
    "25006": "its database is read-only",
    "28": "its database refuses the user or the password",
    "3D000": "its database does not exist",
    "40": "too many writers were in each other's way",
    "42501": "its database's user lacks a permission",
    "42P01": "its tables are not there",
    "53": "its database is out of resources",
    "53100": "its database's disk is full",
    "53300": "its database has too many connections",
    "55P03": "another writer holds a lock for too long",
    "57": "its database was told to stop",
    "57014": "its database took too long to answer",
    "58": "its database's system reports an error",
    "XX001": "its database is damaged",
    "XX002": "its database is damaged",
}
_LOST = ("08", "57P")  # the end of the connection: what became of the transaction is not known
_CONFLICTS = ("40001", "40P01")  # serialization failure, deadlock: nothing was written, and the next try may do


def is_conflict(error: psycopg.Error) -> bool:
    """Whether the same transaction may be tried again at once."""
    return error.sqlstate in _CONFLICTS


def has_changed_nothing(error: AntiphonError) -> bool:
    """Whether it comes of a transaction that the server rolled back and said so."""
    cause = error.__cause__
    state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
    return state is not None and not state.startswith(_LOST)


def translate(error: psycopg.Error) -> AntiphonError:
    """Logs a database error, and returns the one that the caller gets."""
    return report("postgresql", error, error.sqlstate or type(error).__name__, _reason(error))


def _reason(error: psycopg.Error) -> str | None:
    if error.sqlstate is not None:
        return _UNAVAILABLE.get(error.sqlstate) or _UNAVAILABLE.get(error.sqlstate[:2])
    if isinstance(error, PoolTimeout):
        return "no connection to its database was free in time"
    if isinstance(error, PoolClosed):
        return "it is closed"
    if isinstance(error, psycopg.OperationalError):  # without a state: the server never got to answer
        return "its database cannot be reached"
    return None
