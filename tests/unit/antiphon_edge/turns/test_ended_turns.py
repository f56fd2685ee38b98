"""Stored responses as they were made: for comparisons, which must never fail a turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ChainTooLong, DataDamaged, InvalidRequest, RequestRateExceeded, StoreUnavailable
from antiphon_core.jsons import dumps
from antiphon_core.ports.store import Record, Status, TurnCommit
from antiphon_core.ports.translator import Turn
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.turns import ended_turns
from antiphon_edge.turns.ended_turns import COMPARED_BYTES_MAX, EndedTurns
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft

TENANT = "acme"


async def store_with(record: Record) -> StoreService:
    rows = MemoryRows(ManualClock())
    await rows.open()
    store = StoreService(rows)
    await store.put(TENANT, record)
    return store


def comparing(response_id: str, input_items: bytes = b"[]") -> Turn:
    request = {"model": "m", "prompt_cache_options": {"comparison_response_id": response_id}}
    return Turn("resp_now", 0, dumps(request), input=input_items, tenant=TENANT)


def message(text: str) -> bytes:
    return dumps([{"id": "msg_1", "type": "message", "role": "user", "content": text}])


@pytest.mark.parametrize("operation", ["get", "begin_turn"])
@pytest.mark.parametrize(
    "error", [ChainTooLong.of("resp_1", limit="bytes"), DataDamaged.of("a row"), StoreUnavailable("down")]
)
async def test_response_that_cannot_be_read_is_compared_as_unread(
    monkeypatch: pytest.MonkeyPatch, operation: str, error: Exception
) -> None:
    async def fail(*_arguments: Any) -> None:
        raise error

    record = draft()
    store = await store_with(record)
    monkeypatch.setattr(store, operation, fail)
    found = await EndedTurns(store, LongWork()).compared_with(comparing(record.id))
    assert found is not None
    assert found.is_unread


@pytest.mark.parametrize(
    ("stored_bytes", "input_bytes"), [(COMPARED_BYTES_MAX, 0), (5 * 2**20, 28 * 2**20), (0, 33 * 2**20)]
)
async def test_response_that_does_not_fit_beside_the_turn_is_compared_as_unread(
    stored_bytes: int, input_bytes: int
) -> None:
    record = replace(draft(), input_items=message("x" * stored_bytes))
    ended = EndedTurns(await store_with(record), LongWork())
    found = await ended.compared_with(comparing(record.id, message("y" * input_bytes)))
    assert found is not None
    assert found.is_unread


async def test_compared_response_counts_as_bytes_of_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    monkeypatch.setattr(ended_turns, "hold_bytes", held.append)
    record = replace(draft(), input_items=message("Hello"))
    ended = EndedTurns(await store_with(record), LongWork())
    found = await ended.compared_with(comparing(record.id))
    assert found is not None
    assert held == [found.size_bytes]

    def reject(_size: int) -> None:
        raise RequestRateExceeded("full")

    monkeypatch.setattr(ended_turns, "hold_bytes", reject)
    unread = await ended.compared_with(comparing(record.id))
    assert unread is not None
    assert unread.is_unread


async def test_facts_of_a_response_are_its_lineage_without_its_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    record = replace(draft(), input_items=message("x" * 10_000))
    store = await store_with(record)
    child = draft(record)
    await store.commit_turn(TENANT, TurnCommit(child, lineage=b"lineage"))
    found = await EndedTurns(store, LongWork()).facts(TENANT, await store.get(TENANT, child.id))
    assert (found.lineage, found.turn.tenant) == (b"lineage", TENANT)
    assert found.size_bytes < 50

    async def fail(*_arguments: Any) -> None:
        raise DataDamaged.of("a lineage")

    monkeypatch.setattr(store, "begin_turn", fail)
    assert (await EndedTurns(store, LongWork()).facts(TENANT, child)).lineage == b""
    with pytest.raises(InvalidRequest, match="not ended"):
        await EndedTurns(store, LongWork()).facts(TENANT, draft(status=Status.QUEUED))


@pytest.mark.parametrize("status", [Status.QUEUED, None])
async def test_response_that_is_missing_or_has_not_ended_is_not_found(status: Status | None) -> None:
    record = draft(status=status or Status.COMPLETED)
    ended = EndedTurns(await store_with(record if status else draft()), LongWork())
    assert await ended.compared_with(comparing(record.id)) is None
