"""Rows of the session table, as `leases.SessionState`. What may become of a lease, `leases` says."""

from __future__ import annotations

import sqlite3

from antiphon_store.backends.leases import NEVER_USED, SessionState
from antiphon_store.backends.sqlite.queries import QUERIES

_READ = QUERIES["read_session"]
_READ_WITH_HEAD = QUERIES["read_session_with_head"]
_WRITE = QUERIES["write_session"]


def read(connection: sqlite3.Connection, tenant: str, session_id: str) -> SessionState:
    """The session as it is stored, whatever became of its head."""
    row = connection.execute(_READ, {"tenant": tenant, "id": session_id}).fetchone()
    return SessionState(*row) if row else NEVER_USED


def read_current(connection: sqlite3.Connection, tenant: str, session_id: str, now_ms: int) -> SessionState:
    """The session with the head that a turn would continue: none when its time is over."""
    row = connection.execute(_READ_WITH_HEAD, {"tenant": tenant, "id": session_id, "now_ms": now_ms}).fetchone()
    return SessionState(*row) if row else NEVER_USED


def write(connection: sqlite3.Connection, tenant: str, session_id: str, state: SessionState) -> None:
    columns = {
        "head_id": state.head_id,
        "last_fence": state.last_fence,
        "holder": state.holder,
        "lease_expires_at_ms": state.lease_expires_at_ms,
    }
    connection.execute(_WRITE, {"tenant": tenant, "id": session_id, **columns})
