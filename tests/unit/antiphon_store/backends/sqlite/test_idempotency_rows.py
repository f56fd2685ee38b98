from __future__ import annotations

import sqlite3
from dataclasses import replace

from antiphon_core.ports.store import Stamp
from antiphon_store.backends.idempotency import KeyUse
from antiphon_store.backends.sqlite import idempotency_rows

CLAIM = KeyUse("resp_1", b"f", claimed_until_ms=5, expires_at_ms=10)
BOUND = replace(CLAIM, stamp=Stamp(version=1, depth=2, created_at_ms=3, updated_at_ms=4, expires_at_ms=None))


def test_a_key_is_written_overwritten_and_dropped(connection: sqlite3.Connection) -> None:
    assert idempotency_rows.read(connection, "t", "k") is None
    for use in (CLAIM, BOUND, CLAIM):
        idempotency_rows.write(connection, "t", "k", use, 0)
        assert idempotency_rows.read(connection, "t", "k") == use
    assert idempotency_rows.read(connection, "other", "k") is None
    idempotency_rows.drop(connection, "t", "k")
    assert idempotency_rows.read(connection, "t", "k") is None


def test_keys_whose_time_is_over_do_not_pile_up(connection: sqlite3.Connection) -> None:
    for number in range(10):
        idempotency_rows.write(connection, "t", f"old{number}", CLAIM, 0)
    for number in range(5):
        idempotency_rows.write(connection, "t", f"new{number}", replace(CLAIM, expires_at_ms=99), 10)
    assert connection.execute("SELECT count(*) FROM idempotency_key WHERE key LIKE 'old%'").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM idempotency_key").fetchone() == (5,)
