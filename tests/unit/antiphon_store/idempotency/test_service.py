"""Decisions of the service about idempotency keys; that keys work is tested by tests/contract/store/test_suites.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ports.store import Status
from antiphon_store.backends.registry import open_backend
from antiphon_store.idempotency.service import fingerprint_of
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft


async def test_how_long_a_key_is_claimed_is_a_setting(clock: ManualClock) -> None:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    store = StoreService(backend, StoreSettings(turn_claim_s=5))
    first = draft()
    await store.begin_turn("t", keyed(first))
    clock.advance(4.999)
    assert (await store.begin_turn("t", keyed(draft()))).running_response_id == first.id
    clock.advance(0.001)
    assert (await store.begin_turn("t", keyed(draft()))).running_response_id is None


@pytest.mark.parametrize(
    "change",
    [
        {"status": Status.FAILED},
        {"body": b"{}"},
        {"input_items": b"[]"},
        {"output_items": b"[]"},
        {"parent_id": draft().id},
        {"session_id": "s"},
        {"id": draft().id},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_fingerprint_is_of_all_that_the_writer_decides(change: dict[str, object]) -> None:
    record = draft()
    assert fingerprint_of(replace(record, version=7, updated_at_ms=5)) == fingerprint_of(record)
    assert fingerprint_of(replace(record, **change)) != fingerprint_of(record)  # type: ignore[arg-type]
