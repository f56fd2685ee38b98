"""What only these atoms do; all else is the kit's: tests/contract/store/test_suites.py."""

from __future__ import annotations

import sqlite3

from antiphon_store.backends.sqlite import idempotency_atoms, idempotency_rows
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft


def test_only_a_claim_of_the_same_response_is_forgotten(connection: sqlite3.Connection) -> None:
    record = draft()
    idempotency_atoms.begin_turn(connection, "t", keyed(record), claim_ttl_ms=10, now_ms=0)
    idempotency_atoms.forget_key(connection, "t", "k", draft().id)
    assert idempotency_rows.read(connection, "t", "k") is not None
    idempotency_atoms.forget_key(connection, "t", "k", record.id)
    assert idempotency_rows.read(connection, "t", "k") is None
