"""Turns and writes under a key: what becomes of the key when the tree refuses, or an answer is lost."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    PreviousResponseNotFound,
    ResponseNotFound,
    StoreUnavailable,
)
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rows.model import Partition, Program
from antiphon_store.testing.idempotency import FINGERPRINT, keyed
from antiphon_store.testing.subject import draft
from antiphon_store.values import Write
from tests.support.rows import SpiedRows

T, HASH = "t", FINGERPRINT


async def test_a_refused_turn_claims_no_key(engine: StoreEngine) -> None:
    record = draft()
    with pytest.raises(PreviousResponseNotFound):
        await engine.begin_turn(T, keyed(record, previous_response_id=draft().id), claim_ttl_ms=1000)
    other = draft()
    assert (await engine.begin_turn(T, keyed(other), claim_ttl_ms=1000)).running_response_id is None


async def test_a_refused_repetition_keeps_the_claim(engine: StoreEngine) -> None:
    record = draft()
    await engine.begin_turn(T, keyed(record), claim_ttl_ms=1000)
    with pytest.raises(PreviousResponseNotFound):
        await engine.begin_turn(T, keyed(record, previous_response_id=draft().id), claim_ttl_ms=1000)
    assert (await engine.begin_turn(T, keyed(draft()), claim_ttl_ms=1000)).running_response_id == record.id


async def test_a_key_whose_commit_was_never_made_is_a_claim_until_its_time_is_over(
    engine: StoreEngine, rows: SpiedRows, clock: ManualClock
) -> None:
    record = draft()

    async def fail(_partition: Partition, program: Program) -> None:
        if any(getattr(each, "id", "") == record.id for each in program.changes):
            raise StoreUnavailable("down")

    rows.before_transact = fail
    with pytest.raises(StoreUnavailable):
        await engine.commit_turn(T, Write(record), None, key="k")
    rows.before_transact = None
    asked = keyed(draft())
    assert (await engine.begin_turn(T, asked, claim_ttl_ms=1000)).running_response_id == record.id
    clock.advance(61)
    assert (await engine.begin_turn(T, asked, claim_ttl_ms=1000)).running_response_id is None


async def test_a_bound_key_whose_response_is_gone_is_free(engine: StoreEngine) -> None:
    record, other = draft(), draft()
    await engine.commit_turn(T, Write(record), None, key="k")
    replayed = (await engine.begin_turn(T, keyed(other), claim_ttl_ms=1000)).replay
    assert replayed is not None
    await engine.remove(T, record.id)
    start = await engine.begin_turn(T, keyed(other), claim_ttl_ms=1000)
    assert (start.replay, start.running_response_id) == (None, None)


async def test_a_refused_single_write_frees_its_key_and_a_lost_answer_does_not(
    engine: StoreEngine, rows: SpiedRows
) -> None:
    orphan, record = draft(draft()), draft()
    with pytest.raises(ResponseNotFound):
        await engine.put(T, Write(orphan), key="k")
    first = await engine.put(T, Write(record), key="k")
    await engine.remove(T, record.id)
    assert await engine.put(T, Write(record), key="k") == first

    async def lose_the_answer(_partition: Partition, program: Program) -> None:
        if any(getattr(each, "id", "") == lost.id for each in program.changes):
            rows.after_transact = None
            raise StoreUnavailable("lost")

    lost = draft()
    rows.after_transact = lose_the_answer
    with pytest.raises(StoreUnavailable):
        await engine.put(T, Write(lost), key="l")
    assert (await engine.put(T, Write(lost), key="l")).version == 1
