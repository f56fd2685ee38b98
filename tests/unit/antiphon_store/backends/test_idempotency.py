from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import IdempotencyMismatch
from antiphon_core.limits import IDEMPOTENCY_MEMORY_MS
from antiphon_core.ports.store import Stamp
from antiphon_store.backends import idempotency
from antiphon_store.backends.idempotency import UNKNOWN
from antiphon_store.testing.idempotency import FINGERPRINT, OTHER, keyed
from antiphon_store.testing.subject import draft

RECORD = draft()
STAMP = Stamp(version=1, depth=0, created_at_ms=1, updated_at_ms=1)
CLAIM = idempotency.claimed(keyed(RECORD), ttl_ms=10, now_ms=100)
BOUND = idempotency.bound(CLAIM, RECORD, STAMP, fingerprint=None, now_ms=105)


def test_a_claim_keeps_others_out_until_its_time_is_over() -> None:
    assert idempotency.in_force(CLAIM, "k", FINGERPRINT, 109) is CLAIM
    with pytest.raises(IdempotencyMismatch):
        idempotency.in_force(CLAIM, "k", OTHER, 109)
    assert idempotency.in_force(CLAIM, "k", OTHER, 110) is None
    assert idempotency.in_force(None, "k", OTHER, 0) is None


def test_a_binding_is_remembered_for_its_time() -> None:
    end = 105 + IDEMPOTENCY_MEMORY_MS
    assert idempotency.in_force(BOUND, "k", FINGERPRINT, end - 1) is BOUND
    assert idempotency.in_force(BOUND, "k", OTHER, end) is None


def test_only_the_own_response_may_use_a_key_in_force() -> None:
    idempotency.require_own(CLAIM, "k", RECORD.id, 109)
    idempotency.require_own(CLAIM, "k", draft().id, 110)
    with pytest.raises(IdempotencyMismatch):
        idempotency.require_own(CLAIM, "k", draft().id, 109)


def test_the_first_binding_stays() -> None:
    later = replace(STAMP, version=2)
    assert idempotency.bound(BOUND, RECORD, later, fingerprint=None, now_ms=200) is BOUND
    assert idempotency.bound(BOUND, draft(), later, fingerprint=None, now_ms=200).stamp == later


def test_a_binding_takes_over_the_fingerprint_of_its_claim() -> None:
    assert BOUND.fingerprint == FINGERPRINT
    assert idempotency.bound(CLAIM, draft(), STAMP, fingerprint=None, now_ms=200).fingerprint == UNKNOWN
    assert idempotency.bound(None, RECORD, STAMP, fingerprint=OTHER, now_ms=200).fingerprint == OTHER


def test_a_binding_without_a_claim_answers_every_request() -> None:
    unclaimed = idempotency.bound(None, RECORD, STAMP, fingerprint=None, now_ms=100)
    assert idempotency.in_force(unclaimed, "k", OTHER, 101) is unclaimed
