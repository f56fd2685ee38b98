"""Keyed turns and writes: their key after a rejected operation, and after a lost answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    IdempotencyMismatch,
    PreviousResponseNotFound,
    ResponseNotFound,
    StoreUnavailable,
)
from antiphon_core.ports.store import Precondition, TurnCommit
from antiphon_store.rows.model import Partition, Program, Set
from antiphon_store.service import StoreService
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.subject import draft
from tests.support.rows import SpiedRows

T = "t"


async def test_a_refused_turn_claims_no_key(store: StoreService) -> None:
    record = draft()
    with pytest.raises(PreviousResponseNotFound):
        await store.begin_turn(T, keyed_request(record, previous_response_id=draft().id))
    other = draft()
    assert (await store.begin_turn(T, keyed_request(other))).running_response_id is None


async def test_a_refused_repetition_keeps_the_claim(store: StoreService) -> None:
    record = draft()
    await store.begin_turn(T, keyed_request(record))
    with pytest.raises(PreviousResponseNotFound):
        await store.begin_turn(T, keyed_request(record, previous_response_id=draft().id))
    assert (await store.begin_turn(T, keyed_request(draft()))).running_response_id == record.id


async def test_the_key_of_a_failed_commit_stays_claimed_until_it_expires(
    store: StoreService, rows: SpiedRows, clock: ManualClock
) -> None:
    record = draft()

    async def fail(_partition: Partition, program: Program) -> None:
        if any(getattr(each, "id", "") == record.id for each in program.changes):
            raise StoreUnavailable("down")

    rows.before_transact = fail
    with pytest.raises(StoreUnavailable):
        await store.commit_turn(T, TurnCommit(record, idempotency_key="k"))
    rows.before_transact = None
    asked = keyed_request(draft())
    assert (await store.begin_turn(T, asked)).running_response_id == record.id
    clock.advance(61)
    assert (await store.begin_turn(T, asked)).running_response_id is None


async def test_the_bound_key_of_a_deleted_response_is_free(store: StoreService) -> None:
    record, other = draft(), draft()
    await store.commit_turn(T, TurnCommit(record, idempotency_key="k"))
    replayed = (await store.begin_turn(T, keyed_request(other))).replay
    assert replayed is not None
    await store.delete(T, record.id)
    start = await store.begin_turn(T, keyed_request(other))
    assert (start.replay, start.running_response_id) == (None, None)


async def test_a_refused_single_write_frees_its_key_and_a_lost_answer_does_not(
    store: StoreService, rows: SpiedRows
) -> None:
    orphan, record = draft(draft()), draft()
    with pytest.raises(ResponseNotFound):
        await store.put(T, orphan, idempotency_key="k")
    first = await store.put(T, record, idempotency_key="k")
    await store.delete(T, record.id)
    assert await store.put(T, record, idempotency_key="k") == first

    async def lose_the_answer(_partition: Partition, program: Program) -> None:
        if any(getattr(each, "id", "") == lost.id for each in program.changes):
            rows.after_transact = None
            raise StoreUnavailable("lost")

    lost = draft()
    rows.after_transact = lose_the_answer
    with pytest.raises(StoreUnavailable):
        await store.put(T, lost, idempotency_key="l")
    assert (await store.put(T, lost, idempotency_key="l")).version == 1


async def test_a_keyed_replacement_that_failed_before_it_was_written_is_written_by_its_retry(
    store: StoreService, rows: SpiedRows
) -> None:
    record = draft()
    await store.put(T, record)
    changed = replace(record, body=b"{}")

    async def fail(_partition: Partition, program: Program) -> None:
        if any(isinstance(each, Set) and each.ref.id == record.id for each in program.changes):
            raise StoreUnavailable("down")

    rows.before_transact = fail
    with pytest.raises(StoreUnavailable):
        await store.put(T, changed, precondition=Precondition(version=1), idempotency_key="k")
    rows.before_transact = None
    for _ in range(2):
        stamp = await store.put(T, changed, precondition=Precondition(version=1), idempotency_key="k")
        assert stamp.version == 2
    assert (await store.get(T, record.id)).body == changed.body


async def test_a_keyed_write_whose_stamp_was_lost_is_not_repeated_over_a_later_version(
    store: StoreService, rows: SpiedRows
) -> None:
    record = draft()

    async def lose_the_answer(_partition: Partition, program: Program) -> None:
        if any(getattr(each, "id", "") == record.id for each in program.changes):
            rows.after_transact = None
            raise StoreUnavailable("lost")

    rows.after_transact = lose_the_answer
    with pytest.raises(StoreUnavailable):
        await store.put(T, record, idempotency_key="k")
    later = replace(record, body=b"{}")
    await store.put(T, later, precondition=Precondition(version=1))
    assert (await store.put(T, record, idempotency_key="k")).version == 2
    assert (await store.get(T, record.id)).body == later.body
    await store.delete(T, record.id)
    await store.put(T, record, idempotency_key="k")
    with pytest.raises(ResponseNotFound):
        await store.get(T, record.id)


async def test_a_full_store_answers_repeated_requests_only(store: StoreService, rows: SpiedRows) -> None:
    stored, running = draft(), draft()
    await store.begin_turn(T, keyed_request(stored))
    await store.commit_turn(T, TurnCommit(stored, idempotency_key="k"))
    await store.begin_turn(T, keyed_request(running, key="running"))

    async def reject_writes(_partition: Partition, program: Program) -> None:
        if program.changes:
            raise StoreUnavailable("full", full=True)

    rows.before_transact = reject_writes
    replay = (await store.begin_turn(T, keyed_request(draft()))).replay
    assert replay is not None
    assert replay.id == stored.id
    assert (await store.begin_turn(T, keyed_request(draft(), key="running"))).running_response_id == running.id
    with pytest.raises(IdempotencyMismatch):
        await store.begin_turn(T, keyed_request(draft(), fingerprint=bytes(32)))
    for request in (keyed_request(running, key="running"), keyed_request(draft(), key="new")):
        with pytest.raises(StoreUnavailable, match="full"):
            await store.begin_turn(T, request)
