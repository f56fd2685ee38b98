from __future__ import annotations

import sqlite3
from dataclasses import replace

from antiphon_store.backends.leases import NEVER_USED, SessionState
from antiphon_store.backends.places import place_of
from antiphon_store.backends.sqlite import nodes, sessions
from antiphon_store.testing.subject import draft

STATE = SessionState(head_id="resp_head", last_fence=3, holder="a", lease_expires_at_ms=50)


def test_a_session_is_written_and_overwritten(connection: sqlite3.Connection) -> None:
    assert sessions.read(connection, "t", "s") == NEVER_USED
    for state in (STATE, replace(STATE, head_id=None, last_fence=4, holder="", lease_expires_at_ms=0)):
        sessions.write(connection, "t", "s", state)
        assert sessions.read(connection, "t", "s") == state
    assert sessions.read(connection, "other", "s") == NEVER_USED


def test_a_current_session_has_only_a_head_that_lives(connection: sqlite3.Connection) -> None:
    assert sessions.read_current(connection, "t", "s", 0) == NEVER_USED
    head = replace(draft(), version=1, expires_at_ms=100)
    state = replace(STATE, head_id=head.id)
    sessions.write(connection, "t", "s", state)
    assert sessions.read_current(connection, "t", "s", 99) == replace(state, head_id=None)
    nodes.insert(connection, "t", place_of(1, 0), head)
    assert sessions.read_current(connection, "t", "s", 99) == state
    assert sessions.read_current(connection, "t", "s", 100) == replace(state, head_id=None)
