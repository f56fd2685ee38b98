from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    AntiphonError,
    EngineTimeout,
    InvalidRequest,
    ModelNotFound,
    PreviousResponseNotFound,
    ResponseNotFound,
    StoreUnavailable,
    TranslatorUnavailable,
    Unavailable,
)
from antiphon_core.flow import Flow
from antiphon_core.fold import fold
from antiphon_core.ids import tree_tag
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Stamp, TurnCommit
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CreateRequest
from antiphon_core.telemetry import metrics
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.store_calls import retrying
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_store.service import StoreService
from tests.support.served_models import turn
from tests.support.stores import ReachableRows
from tests.support.translators import ScriptedTranslator
from tests.support.turn_services import turn_service
from tests.support.turn_streams import sent
from tests.support.waiting import until

TENANT = "default"


class Bench:
    """A turn runner over a real store and a scripted translator."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.backend = ReachableRows(clock)
        self.store = StoreService(self.backend)
        self.translator = ScriptedTranslator()
        self.charged: list[tuple[str, int]] = []
        meter = Meter(lambda tenant, tokens: self.charged.append((tenant, tokens)))
        self.service_over = partial(turn_service, translator=self.translator, clock=clock, meter=meter)
        self.turns = self.service_over(self.store)

    async def stream(self, **members: Any) -> list[Object]:
        """All events of a turn."""
        request = CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))
        return [event async for batch in sent(self.turns, TENANT, request) for event in events.decode(batch.frames)]

    async def complete(self, *, key: str | None = None, **members: Any) -> Object:
        request = CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))
        answer: Object = loads(await self.turns.complete(TENANT, request, key=key))
        return answer

    async def stored(self, response_id: str) -> Object:
        record = await self.store.get(TENANT, response_id)
        answer: Object = loads(response.join(record.body, record.output_items))
        return answer


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.backend.close()


def numbers(log: list[Object]) -> list[int]:
    return [event["sequence_number"] for event in log]


async def test_usage_of_a_turn_is_charged_to_its_tenant(bench: Bench) -> None:
    await bench.stream()
    assert bench.charged == [(TENANT, 5)]


async def test_the_stream_the_json_and_the_record_are_one_response(bench: Bench) -> None:
    log = await bench.stream()
    ended = log[-1]["response"]
    assert numbers(log) == list(range(len(log)))
    assert fold(log) == ended == await bench.stored(ended["id"])
    assert (await bench.complete())["output"] == ended["output"]


async def test_a_continuation_gets_the_history_and_stays_in_the_tree(bench: Bench) -> None:
    first = await bench.complete(input="one")
    second = await bench.complete(input="two", previous_response_id=first["id"], instructions="be brief")
    third = await bench.complete(input="three", previous_response_id=second["id"])
    history = [item["content"][0]["text"] for item in loads(bench.translator.turns[-1].history)]
    assert history == ["one", "Hello there", "two", "Hello there"]
    assert tree_tag(first["id"]) == tree_tag(third["id"])
    assert third["instructions"] is None


async def test_unknown_previous_response_is_rejected_and_nothing_is_generated(bench: Bench) -> None:
    for unknown in ("resp_" + "a" * 48, "nonsense"):
        with pytest.raises(PreviousResponseNotFound):
            await bench.complete(previous_response_id=unknown)
    assert bench.translator.turns == []


async def test_an_error_before_the_first_event_is_raised_and_leaves_no_record(bench: Bench) -> None:
    with pytest.raises(ModelNotFound):
        await bench.complete(model="other")
    await bench.turns.settle()
    assert bench.translator.turns == []


async def test_response_with_store_false_is_not_stored_and_may_continue_another(bench: Bench) -> None:
    first = await bench.complete()
    second = await bench.complete(store=False, previous_response_id=first["id"])
    with pytest.raises(ResponseNotFound):
        await bench.stored(second["id"])
    with pytest.raises(PreviousResponseNotFound):
        await bench.complete(previous_response_id=second["id"])


@pytest.mark.parametrize("fault", [TranslatorUnavailable("Socket closed"), EngineTimeout("no token"), OSError("bug")])
async def test_a_translator_lost_in_mid_stream_ends_in_one_failed_response(bench: Bench, fault: Exception) -> None:
    bench.translator.fault = fault
    log = await bench.stream()
    assert numbers(log) == list(range(len(log)))
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    ended = log[-1]["response"]
    assert ended["status"] == "failed"
    assert ended["output"][0]["status"] == "incomplete"
    assert ended["output"][0]["content"][0]["text"] == "Hello there"
    assert "bug" not in str(ended["error"])
    assert fold(log) == ended == await bench.stored(ended["id"])


async def test_without_streaming_a_failure_is_raised_as_itself_and_recorded(bench: Bench) -> None:
    bench.translator.fault = EngineTimeout("no token for 5 s")
    with pytest.raises(EngineTimeout, match="no token for 5 s"):
        await bench.complete()
    (turn,) = bench.translator.turns
    assert (await bench.stored(turn.response_id))["status"] == "failed"


@pytest.mark.parametrize(("fault", "counted"), [(EngineTimeout("no token"), 1), (InvalidRequest("not this"), 0)])
async def test_failure_that_is_answered_with_5xx_is_counted_as_answered(
    bench: Bench, fault: AntiphonError, counted: int
) -> None:
    bench.translator.fault = fault
    before = metrics.TURN_FAILURES_ANSWERED.of().value
    await bench.stream()
    assert metrics.TURN_FAILURES_ANSWERED.of().value == before
    with pytest.raises(type(fault)):
        await bench.complete()
    assert metrics.TURN_FAILURES_ANSWERED.of().value == before + counted


async def test_failure_of_a_keyed_turn_is_counted_as_answered_for_its_first_request_only(bench: Bench) -> None:
    bench.translator.fault = EngineTimeout("no token")
    before = metrics.TURN_FAILURES_ANSWERED.of().value
    for _ in range(3):
        with pytest.raises(EngineTimeout):
            await bench.complete(key="k")
    assert len(bench.translator.turns) == 1
    assert metrics.TURN_FAILURES_ANSWERED.of().value == before + 1


async def test_a_caller_that_goes_away_stops_the_translator_and_is_recorded_as_cancelled(bench: Bench) -> None:
    bench.translator.hang = True
    request = CreateRequest.parse(b'{"model": "m", "input": "hi"}')
    async with aclosing(sent(bench.turns, TENANT, request)) as batches:
        for _ in range(6):
            await anext(batches)
    assert bench.translator.closed.is_set()
    await bench.turns.settle()
    (turn,) = bench.translator.turns
    ended = await bench.stored(turn.response_id)
    assert (ended["status"], ended["output"][0]["content"][0]["text"]) == ("cancelled", "Hello there")


async def test_cancelled_task_is_recorded_as_cancelled(bench: Bench) -> None:
    bench.translator.hang = True
    task = asyncio.create_task(bench.complete())
    await until(lambda: bool(bench.translator.turns), "the turn")
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bench.turns.settle()
    assert (await bench.stored(bench.translator.turns[0].response_id))["status"] == "cancelled"


class FlakyStore:
    """A store whose first commits fail, before or after they are executed."""

    def __init__(self, store: StoreService, *, failures: int, executes: bool) -> None:
        self._store = store
        self._failures = failures
        self._executes = executes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        if self._failures == 0:
            return await self._store.commit_turn(tenant, commit)
        self._failures -= 1
        if self._executes:
            await self._store.commit_turn(tenant, commit)
        raise StoreUnavailable("the store timed out")


@pytest.mark.parametrize("executes", [False, True])
async def test_commit_with_an_unknown_outcome_is_retried(bench: Bench, executes: bool) -> None:
    store: Any = FlakyStore(bench.store, failures=1, executes=executes)
    bench.turns = bench.service_over(retrying(store))
    log = await bench.stream()
    assert log[-1]["type"] == events.COMPLETED
    assert (await bench.stored(log[-1]["response"]["id"]))["status"] == "completed"


async def test_completed_is_not_sent_unless_the_record_is_safe(bench: Bench) -> None:
    store: Any = FlakyStore(bench.store, failures=9, executes=False)
    bench.turns = bench.service_over(store)
    log = await bench.stream()
    assert numbers(log) == list(range(len(log)))
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert events.COMPLETED not in [event["type"] for event in log]
    with pytest.raises(StoreUnavailable):
        await bench.complete()


async def test_the_terminal_event_comes_after_the_commit(bench: Bench) -> None:
    request = CreateRequest.parse(b'{"model": "m", "input": "hi"}')
    stored: list[tuple[bool, int]] = []

    def receive(batch: Batch) -> None:
        stored.append((batch.final is not None, len(bench.backend.stored())))

    await bench.turns.send(TENANT, request, receive, Flow())
    *before, last = stored
    assert set(before) == {(False, 0)}
    assert last == (True, 1)


ERROR = Unavailable.at_shutdown("Send the request again.")


@dataclass(eq=False)
class Run:
    """The part of a TurnRun that is used."""

    accepted: AcceptedTurn
    calls_servers = False
    error: Exception | None = None

    def break_off(self, error: Exception) -> None:
        self.error = error


async def test_running_and_later_turns_are_broken_off_and_ended_ones_are_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, running, later = runs = [Run(AcceptedTurn("default", turn("Hi"))) for _ in range(3)]
    is_over, turns = asyncio.Event(), bench.turns

    async def run_until_over(run: Any, _policy: Any) -> None:
        if run is not ended:
            await is_over.wait()

    monkeypatch.setattr(turns._runner, "run", run_until_over)
    as_runs: list[Any] = [*runs]
    await turns.run(as_runs[0])
    tasks = [asyncio.create_task(turns.run(as_runs[1]))]
    await asyncio.sleep(0)
    await turns.break_off(ERROR)
    tasks.append(asyncio.create_task(turns.run(as_runs[2])))
    await asyncio.sleep(0)
    assert turns.running == 2
    assert (ended.error, running.error, later.error) == (None, ERROR, ERROR)
    is_over.set()
    await asyncio.gather(*tasks)
    assert turns.running == 0
