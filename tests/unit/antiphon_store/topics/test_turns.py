"""Turns wait for a lease, keep their key for a time, and are rejected over the bounds of a history."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ChainTooLong, PreviousResponseNotFound
from antiphon_core.jsons import dumps, loads
from antiphon_core.limits import TOP_LOGPROBS_MAX
from antiphon_core.ports.store import Precondition, TurnCommit, TurnRequest
from antiphon_store.decisions import nodes, turns
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.conversations import array, names_in, new_id
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.subject import draft, new_session_id, turn_in
from tests.support.rows import SpiedRows

T = "t"
SESSION = new_session_id()


@pytest.mark.parametrize("way", ["commit", "abort", "release"])
async def test_the_end_of_a_turn_wakes_a_waiting_turn(rows: SpiedRows, way: str) -> None:
    store = StoreService(rows, StoreSettings(lease_poll_ms=3_600_000))
    start = await store.begin_turn(T, turn_in(SESSION))
    assert start.lease is not None
    waiting = asyncio.create_task(store.begin_turn(T, turn_in(SESSION, holder="other", wait_ms=60_000)))
    await asyncio.sleep(0.01)
    if way == "commit":
        await store.commit_turn(T, TurnCommit(draft(tag=SESSION, session_id=SESSION), start.lease.fence))
    elif way == "abort":
        await store.abort_turn(T, start.lease.fence)
    else:
        await store.release_session(T, start.lease.fence)
    second = await asyncio.wait_for(waiting, 30)
    assert second.lease is not None
    assert second.lease.holder == "other"


async def test_the_turn_claim_setting_limits_how_long_a_key_is_claimed(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(turn_claim_s=5))
    first = draft()
    await store.begin_turn("t", keyed_request(first))
    clock.advance(4.999)
    assert (await store.begin_turn("t", keyed_request(draft()))).running_response_id == first.id
    clock.advance(0.001)
    assert (await store.begin_turn("t", keyed_request(draft()))).running_response_id is None


def answer_with_log_probabilities(tokens: int, top: int) -> bytes:
    likely: dict[str, Any] = {"token": " the", "logprob": -0.123456, "bytes": [32, 116, 104, 101]}
    logprobs = [likely | {"top_logprobs": [likely] * top}] * tokens
    part = {"type": "output_text", "text": " the" * tokens, "annotations": [], "logprobs": logprobs}
    return dumps([{"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}])


async def test_an_answer_with_many_log_probabilities_is_stored(store: StoreService) -> None:
    record = draft(output_items=answer_with_log_probabilities(tokens=2_000, top=TOP_LOGPROBS_MAX))
    await store.commit_turn(T, TurnCommit(record))
    assert (await store.get(T, record.id)).output_items == record.output_items


async def test_removed_items_do_not_count_towards_the_history_bound(store: StoreService) -> None:
    conversation_id = new_id()
    await store.create_conversation(T, conversation_id=conversation_id, items=array("a", "b"))
    await store.delete_conversation_item(T, conversation_id, "b")
    left = len(array("a"))
    start = await store.begin_turn(T, turn_in(conversation_id, max_bytes=left))
    assert names_in(start.history.items) == ["a"]
    with pytest.raises(ChainTooLong):
        await store.begin_turn(T, turn_in(conversation_id, max_bytes=left - 1))


async def test_a_previous_response_of_another_tenant_is_not_found(store: StoreService) -> None:
    record = draft()
    await store.put(T, record)
    with pytest.raises(PreviousResponseNotFound):
        await store.begin_turn("other", TurnRequest(previous_response_id=record.id))


LONG_IDS = [f"item_{number:01000d}" for number in range(100)]
LONG = array(*LONG_IDS)


@pytest.fixture
def parsed_in(monkeypatch: pytest.MonkeyPatch) -> set[threading.Thread]:
    """The threads in which decisions have parsed stored items."""
    threads: set[threading.Thread] = set()

    def noting_loads(text: bytes) -> Any:
        threads.add(threading.current_thread())
        return loads(text)

    for module in (turns, nodes):
        monkeypatch.setattr(module, "loads", noting_loads)
    return threads


async def test_long_history_with_removed_items_is_parsed_in_a_thread(
    rows: SpiedRows, parsed_in: set[threading.Thread]
) -> None:
    store = StoreService(rows)
    made = await store.create_conversation(T, conversation_id=new_id())
    for start_at in range(0, len(LONG_IDS), 20):
        await store.add_conversation_items(T, made.id, array(*LONG_IDS[start_at : start_at + 20]))
    parsed_in.clear()
    await store.delete_conversation_item(T, made.id, LONG_IDS[0])
    start = await store.begin_turn(T, turn_in(made.id))
    assert names_in(start.history.items) == LONG_IDS[1:]
    assert parsed_in
    assert threading.main_thread() not in parsed_in


async def test_items_of_a_large_replaced_record_are_parsed_in_a_thread(
    rows: SpiedRows, parsed_in: set[threading.Thread]
) -> None:
    store, record = StoreService(rows), draft(input_items=LONG)
    await store.put(T, record)
    await store.put(T, replace(record, body=b'{"other":1}'), precondition=Precondition(version=1))
    assert parsed_in
    assert threading.main_thread() not in parsed_in


async def test_items_of_a_large_deleted_response_are_parsed_in_a_thread(
    rows: SpiedRows, parsed_in: set[threading.Thread]
) -> None:
    store, record = StoreService(rows), draft(input_items=LONG)
    await store.put(T, record)
    await store.delete(T, record.id)
    assert (await store.sweep(T, limit=10)).records == 1
    assert not (await store.resolve_items(T, LONG_IDS[:1])).items
    assert parsed_in
    assert threading.main_thread() not in parsed_in
