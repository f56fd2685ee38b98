"""Writes that one program cannot decide: occupied ids, crowded sessions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    AlreadyExists,
    ChainTooLong,
    LimitExceeded,
    PreviousResponseNotFound,
)
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Record, TurnRequest
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.conversations import array, names_in, new_id
from antiphon_store.testing.idempotency import FINGERPRINT
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from antiphon_store.values import Addition, Founding, Write

T, HASH = "t", FINGERPRINT


async def put(engine: StoreEngine, *records: Record) -> None:
    for each in records:
        await engine.put(T, Write(each))


async def remove(engine: StoreEngine, *records: Record) -> None:
    for each in records:
        await engine.remove(T, each.id)


async def test_the_id_of_a_dead_response_is_free_when_nothing_needs_it(engine: StoreEngine) -> None:
    root = draft()
    child = draft(root)
    grandchild = draft(child)
    await put(engine, root, child, grandchild)
    await remove(engine, child)
    other = replace(child, body=b'{"other":1}')
    with pytest.raises(AlreadyExists):
        await put(engine, other)
    await remove(engine, grandchild)
    await put(engine, other)
    assert (await engine.fetch(T, child.id)).body == other.body
    assert (await engine.fetch(T, child.id)).version == 1


async def test_the_id_of_a_session_head_is_not_free(engine: StoreEngine) -> None:
    record = draft()
    await put(engine, record)
    await engine.fork(T, ForkSource(None, record.id), new_session_id(record.id))
    await remove(engine, record)
    with pytest.raises(AlreadyExists):
        await put(engine, record)


async def test_responses_that_cannot_be_read_do_not_crowd_a_session(engine: StoreEngine) -> None:
    session_id = new_session_id()
    records = [draft(session_id=session_id, tag=session_id) for _ in range(5)]
    for place, record in enumerate(records[:3]):
        await engine.put(T, Write(record, ttl_ms=60_000 if place else None, session_responses_max=3))
    with pytest.raises(LimitExceeded) as caught:
        await engine.put(T, Write(records[3], session_responses_max=3))
    assert caught.value.field == "record.session_id"
    await remove(engine, records[0])
    await engine.put(T, Write(records[3], session_responses_max=3))
    with pytest.raises(LimitExceeded):
        await engine.put(T, Write(records[4], session_responses_max=3))


async def test_expired_responses_do_not_crowd_a_session(engine: StoreEngine, clock: ManualClock) -> None:
    session_id = new_session_id()
    old, new = (draft(session_id=session_id, tag=session_id) for _ in range(2))
    await engine.put(T, Write(old, ttl_ms=1, session_responses_max=1))
    clock.advance(1)
    await engine.put(T, Write(new, session_responses_max=1))


async def test_the_bound_of_a_history_is_for_what_is_left(engine: StoreEngine) -> None:
    conversation_id = new_id()
    first = Addition(array("a", "b"), "d", "s")
    await engine.create_conversation(T, conversation_id, Founding(b"{}", "o", "i", first))
    await engine.remove_item(T, conversation_id, "b")
    left = len(array("a"))
    start = await engine.begin_turn(T, turn_in(conversation_id, max_bytes=left))
    assert names_in(start.history.items) == ["a"]
    with pytest.raises(ChainTooLong):
        await engine.begin_turn(T, turn_in(conversation_id, max_bytes=left - 1))


async def test_a_turn_behind_another_tenants_response_finds_nothing(engine: StoreEngine) -> None:
    record = draft()
    await put(engine, record)
    with pytest.raises(PreviousResponseNotFound):
        await engine.begin_turn("other", TurnRequest(previous_response_id=record.id))
