from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import PreviousResponseNotFound, ResponseNotFound
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import StepKind
from antiphon_edge.tools.limits import ToolLimits
from antiphon_edge.turns.caller_policy import CallerPolicy
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS
from antiphon_store.service import StoreService
from tests.support.stores import ReachableRows
from tests.support.tool_turns import FakeTools, RoundsEngine, ToolTurns, call

BUY = call("shop__buy")
NO_WAIT = ToolLimits(finish_s=0)


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[StoreService]:
    rows = ReachableRows(clock)
    await rows.open()
    yield StoreService(rows)
    await rows.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def die(made: ToolTurns, tools: FakeTools, monkeypatch: pytest.MonkeyPatch, **members: Any) -> str:
    """Runs a turn on an edge that dies while its call runs, and returns the id of the response."""

    async def write_nothing(*_: Any) -> None: ...

    tools.hangs = True
    running = asyncio.ensure_future(made.send(**members))
    await tools.called.wait()
    with monkeypatch.context() as death:
        death.setattr(CallerPolicy, "leave", write_nothing)
        running.cancel()
        await asyncio.wait([running])
        await made.service.settle()
    response_id: str = made.log[0]["response"]["id"]
    return response_id


async def test_turn_of_a_dead_edge_ends_as_failed_with_its_call_unknown(
    store: StoreService, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = FakeTools()
    first = ToolTurns(store, RoundsEngine(BUY), tools, clock=clock, tool_limits=NO_WAIT)
    response_id = await die(first, tools, monkeypatch)
    other = ToolTurns(store, RoundsEngine("Hi."), tools, clock=clock).service
    assert not await other.end_if_lost("default", response_id)  # its lease is still live
    with pytest.raises(ResponseNotFound):
        await store.get("default", response_id)
    clock.advance(JOB_LEASE_MS / 1000)
    assert await other.end_if_lost("default", response_id)
    record = await store.get("default", response_id)
    (item,) = _calls(record.output_items)
    assert (record.status.value, item["status"], item["error"]["code"]) == ("failed", "incomplete", -32001)
    assert len(tools.calls) == 1
    assert not await other.end_if_lost("default", response_id)
    steps = [step.kind async for batch in store.read_events("default", response_id) for step in batch.steps]
    assert steps == [StepKind.INTENT]


async def test_turn_of_a_dead_edge_can_be_continued(
    store: StoreService, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = FakeTools()
    first = ToolTurns(store, RoundsEngine(BUY), tools, clock=clock, tool_limits=NO_WAIT)
    lost_id = await die(first, tools, monkeypatch)
    engine = RoundsEngine("Hi.")
    other = ToolTurns(store, engine, tools, clock=clock)
    with pytest.raises(PreviousResponseNotFound):
        await other.send(previous_response_id=lost_id)  # its lease is still live
    clock.advance(JOB_LEASE_MS / 1000)
    assert (await other.send(previous_response_id=lost_id))["status"] == "completed"
    assert (await store.get("default", lost_id)).status.value == "failed"
    assert "unknown" in repr(engine.requests[-1].prompt)


async def test_turn_with_a_key_is_left_to_the_request_that_repeats_the_key(
    store: StoreService, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = FakeTools()
    first = ToolTurns(store, RoundsEngine(BUY), tools, clock=clock)
    response_id = await die(first, tools, monkeypatch, key="k")
    clock.advance(JOB_LEASE_MS / 1000)
    other = ToolTurns(store, RoundsEngine("So."), tools, clock=clock)
    assert not await other.service.end_if_lost("default", response_id)
    tools.hangs = False
    assert (await other.send(key="k"))["id"] == response_id


async def test_finished_and_unknown_responses_are_not_lost(store: StoreService, clock: ManualClock) -> None:
    made = ToolTurns(store, RoundsEngine(BUY, "So."), FakeTools(), clock=clock)
    response = await made.send()
    for response_id in (response["id"], "resp_" + "1" * 48):
        assert not await made.service.end_if_lost("default", response_id)
    assert (await store.get("default", response["id"])).status.value == "completed"
    job = await store.describe_job("default", response["id"])
    assert job.state.value == "succeeded"


async def test_turn_that_is_not_stored_has_no_journal(store: StoreService, clock: ManualClock) -> None:
    made = ToolTurns(store, RoundsEngine(BUY, "So."), FakeTools(), clock=clock)
    response = await made.send(store=False)
    assert (response["status"], len(_calls_of(response))) == ("completed", 1)


def _calls(items: bytes) -> list[Object]:
    return [item for item in loads(items) if item["type"] == "mcp_call"]


def _calls_of(response: Object) -> list[Object]:
    return [item for item in response["output"] if item["type"] == "mcp_call"]
