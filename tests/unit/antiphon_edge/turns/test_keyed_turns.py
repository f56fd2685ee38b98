from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    AntiphonError,
    EngineTimeout,
    EngineUnavailable,
    IdempotencyMismatch,
    InvalidRequest,
    JobNotFound,
    ModelNotFound,
    StoreUnavailable,
    TooLarge,
    Unavailable,
)
from antiphon_core.flow import Flow
from antiphon_core.fold import Fold, fold
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Stamp, TurnCommit, TurnRequest, TurnStart
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CreateRequest
from antiphon_core.retrying import RetryPolicy
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.leases import RenewalPace
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS, TurnTiming
from antiphon_store.backends.registry import row_backend
from antiphon_store.rows.backend import RowBackend
from antiphon_store.service import StoreService
from tests.support.thinking_edges import LosableTranslator, PausableEngine, losable
from tests.support.turn_services import turn_service
from tests.support.turn_streams import sent

TENANT = "t"
TIMING = TurnTiming(linger_s=0, silence_s=0.02)
SAID = ("<think>", "Hm.", "</think>", "Hello there.")


class StoreConnection:
    """An edge's connection to the store, until it is cut."""

    def __init__(self, store: StoreService) -> None:
        self._store = store
        self.is_cut = False
        self.commit_error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        if self.is_cut:
            raise StoreUnavailable("the connection is cut")
        return getattr(self._store, name)

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        if self.commit_error is not None:
            raise self.commit_error
        stamp: Stamp = await self.__getattr__("commit_turn")(tenant, commit)
        return stamp


class Edge:
    def __init__(self, backend: RowBackend, translator: LosableTranslator, clock: ManualClock) -> None:
        self.connection = StoreConnection(StoreService(backend))
        connection: Any = self.connection
        self._service = partial(turn_service, connection, translator, clock=clock)
        self.use(TIMING)

    def use(self, timing: TurnTiming) -> None:
        """Gives the edge another timing."""
        self.turns = self._service(timing=timing)

    async def ask(self, key: str = "k", **members: Any) -> list[Object]:
        return [event async for event in self.stream(key, **members)]

    async def stream(self, key: str = "k", **members: Any) -> AsyncGenerator[Object, None]:
        request = CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))
        async with aclosing(sent(self.turns, TENANT, request, key=key)) as batches:
            async for batch in batches:
                for event in events.decode(batch.frames):
                    yield event

    async def begin_stream(self) -> asyncio.Task[list[Object]]:
        """Starts a request and returns its task after the first event."""
        has_accepted = asyncio.Event()

        async def read() -> list[Object]:
            told = []
            async for event in self.stream():
                told.append(event)
                has_accepted.set()
            return told

        reading = asyncio.create_task(read())
        async with asyncio.timeout(30):
            await has_accepted.wait()
        return reading

    async def complete(self, key: str = "k", **members: Any) -> Object:
        request = CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))
        answer: Object = loads(await self.turns.complete(TENANT, request, key=key))
        return answer

    def kill(self) -> None:
        """Cuts the edge off from the store: none of its writes arrives any more."""
        self.connection.is_cut = True


class System:
    """Three edges over one store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = row_backend("memory://", clock=self.clock)
        self.store = StoreService(self.backend)
        self.engine = PausableEngine(*SAID)
        self.translator = losable(self.engine)
        self.edges = [Edge(self.backend, self.translator, self.clock) for _ in range(3)]

    async def until_it_pauses(self) -> None:
        """Waits until the model pauses, and 50 ms more, in which its output reaches the event log."""
        async with asyncio.timeout(30):
            await self.engine.paused.wait()
        await asyncio.sleep(0.05)

    async def stored(self, response_id: str) -> Object:
        record = await self.store.get(TENANT, response_id)
        answer: Object = loads(response.join(record.body, record.output_items))
        return answer


@pytest.fixture
async def system() -> AsyncIterator[System]:
    system = System()
    await system.backend.open()
    yield system
    system.engine.go.set()
    for edge in system.edges:
        await edge.turns.settle()
    await system.backend.close()


def numbers(log: list[Object]) -> list[int]:
    return [event["sequence_number"] for event in log]


async def test_thirty_two_concurrent_requests_with_one_key_run_one_turn(system: System) -> None:
    logs = await asyncio.gather(*(system.edges[n % 3].ask() for n in range(32)))
    assert all(log == logs[0] for log in logs)
    assert len(system.engine.requests) == 1
    assert fold(logs[0]) == await system.stored(logs[0][0]["response"]["id"])


async def test_later_request_with_the_key_gets_the_stream_from_its_start(system: System) -> None:
    system.engine.pause_at = 9
    first = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()
    second = asyncio.create_task(system.edges[1].ask())
    await asyncio.sleep(0.1)
    system.engine.go.set()
    assert await first == await second == await system.edges[2].ask()
    whole = await system.edges[2].complete()
    assert whole == (await first)[-1]["response"]
    assert len(system.engine.requests) == 1


async def test_repeated_request_is_replayed_from_the_record_when_the_log_is_gone(system: System) -> None:
    first = await system.edges[0].ask()
    system.clock.advance(2 * 3600)
    again = await system.edges[1].ask()
    assert again[-1]["response"] == first[-1]["response"]
    assert numbers(again) == list(range(len(again)))


async def test_another_request_with_the_key_is_rejected_during_and_after_the_turn(system: System) -> None:
    system.engine.pause_at = 5
    first = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()
    with pytest.raises(IdempotencyMismatch):
        await system.edges[1].ask(input="other")
    system.engine.go.set()
    await first
    with pytest.raises(IdempotencyMismatch):
        await system.edges[1].ask(input="other")


async def test_concurrent_requests_with_one_key_all_get_the_error_of_a_rejected_turn(system: System) -> None:
    asked = [system.edges[n % 3].ask(model="other") for n in range(6)]
    for outcome in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(outcome, ModelNotFound)


async def test_key_of_a_request_whose_edge_died_at_once_is_released(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = 0

    async def abort_turn(*arguments: Any, **options: Any) -> None:
        """Releases only the turn of the dead edge. The next turn runs, and keeps the key until it ends."""
        nonlocal releases
        releases += 1
        if releases == 1:
            await system.store.abort_turn(*arguments, **options)

    for edge in system.edges:
        edge.use(replace(TIMING, stale_key_s=0.3))
        monkeypatch.setattr(edge.connection, "abort_turn", abort_turn, raising=False)
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    dead = await system.edges[0].turns._starter.begin(TENANT, request, key="k")
    assert isinstance(dead, AcceptedTurn)
    logs = await asyncio.gather(*(system.edges[n % 3].ask() for n in range(8)))
    assert all(log == logs[0] for log in logs)
    assert logs[0][-1]["type"] == events.COMPLETED
    assert logs[0][0]["response"]["id"] != dead.response_id
    assert len(system.engine.requests) == 1


async def test_slow_first_request_keeps_its_key(system: System) -> None:
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    slow = await system.edges[0].turns._starter.begin(TENANT, request, key="k")
    assert isinstance(slow, AcceptedTurn)
    asking = asyncio.create_task(system.edges[1].ask())
    await asyncio.sleep(0.5)
    held = await system.edges[0].turns._keyed_turns.enqueue(slow)
    assert held is not None
    batches: list[Batch] = []
    await system.edges[0].turns._keyed_turns.run(held, batches.append, Flow())
    told = [event for batch in batches for event in events.decode(batch.frames)]
    assert await asking == told
    assert len(system.engine.requests) == 1


async def test_turn_that_begins_while_a_later_request_looks_for_its_job_is_followed(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.engine.pause_at = 9
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    slow = await system.edges[0].turns._starter.begin(TENANT, request, key="k")
    assert isinstance(slow, AcceptedTurn)
    connection, keyed_turns = system.edges[1].connection, system.edges[0].turns._keyed_turns
    running: list[asyncio.Task[None]] = []

    async def describe_job(tenant: str, job_id: str) -> Any:
        if not running:
            held = await keyed_turns.enqueue(slow)
            assert held is not None
            running.append(asyncio.create_task(keyed_turns.run(held, lambda _: None, Flow())))
            await system.until_it_pauses()
            raise JobNotFound.of(job_id)  # the answer from before
        system.engine.go.set()
        return await system.store.describe_job(tenant, job_id)

    monkeypatch.setattr(connection, "describe_job", describe_job, raising=False)
    log = await system.edges[1].ask()
    assert numbers(log) == list(range(len(log)))
    assert log[-1]["response"] == await system.stored(slow.response_id)
    assert len(system.engine.requests) == 1


async def test_turn_that_outlasts_its_key_claim_is_still_found_by_its_key(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = RenewalPace(every_s=0.005, retry_s=0.005)
    for edge in system.edges:
        edge.use(replace(TIMING, job_pace=pace, key_pace=pace, job_lease_ms=600_000))
    claims, begin_turn = 0, StoreService.begin_turn

    async def counted(self: StoreService, tenant: str, request: TurnRequest) -> TurnStart:
        nonlocal claims
        start = await begin_turn(self, tenant, request)
        claims += 1
        return start

    async def until_claimed_again() -> None:
        """Waits for two more claims of the key; the second one began after this call."""
        enough = claims + 2
        async with asyncio.timeout(30):
            while claims < enough:
                await asyncio.sleep(0.001)

    monkeypatch.setattr(StoreService, "begin_turn", counted)
    system.engine.pause_at = 9
    first = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()
    for _ in range(5):
        system.clock.advance(300)
        await until_claimed_again()
    second = asyncio.create_task(system.edges[1].ask())
    await asyncio.sleep(0.1)
    system.engine.go.set()
    assert await first == await second
    assert len(system.engine.requests) == 1


async def test_keyed_turn_continues_after_a_client_disconnect(system: System) -> None:
    system.engine.pause_at = 9
    async with aclosing(system.edges[0].stream()) as stream:
        first = await anext(stream)
    system.engine.go.set()
    log = await system.edges[1].ask()
    assert (log[0], log[-1]["type"]) == (first, events.COMPLETED)
    assert len(system.engine.requests) == 1


@pytest.mark.parametrize("pause_at", [0, 3, 9, 14])
async def test_turn_of_a_dead_edge_is_taken_over_and_its_readers_get_one_stream(system: System, pause_at: int) -> None:
    system.engine.pause_at = pause_at
    dying = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()
    readers = [asyncio.create_task(system.edges[n].ask()) for n in (1, 2, 1)]
    await asyncio.sleep(0.05)
    system.edges[0].kill()
    system.engine.pause_at = None
    system.clock.advance(JOB_LEASE_MS / 1000)
    logs = await asyncio.gather(*readers)
    assert all(log == logs[0] for log in logs)
    assert numbers(logs[0]) == list(range(len(logs[0])))
    other = await system.edges[1].ask(key="other")
    assert [event["type"] for event in logs[0]] == [event["type"] for event in other]
    ended = logs[0][-1]["response"]
    assert fold(logs[0]) == ended == await system.stored(ended["id"])
    assert len(system.engine.requests) == 3  # the first attempt, the takeover, and the other turn
    system.engine.go.set()
    await asyncio.gather(dying, return_exceptions=True)
    assert await system.stored(ended["id"]) == ended


async def test_request_after_the_death_of_an_edge_takes_its_turn_over(system: System) -> None:
    system.engine.pause_at = 9
    dying = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()
    system.edges[0].kill()
    system.engine.pause_at = None
    system.clock.advance(JOB_LEASE_MS / 1000)
    ended = await system.edges[1].complete()
    assert ended["output"][-1]["content"][0]["text"] == "Hello there."
    system.engine.go.set()
    await asyncio.gather(dying, return_exceptions=True)


async def test_turn_whose_commit_failed_is_finished_by_the_next_request(system: System) -> None:
    system.edges[0].connection.commit_error = StoreUnavailable("gone")
    (*_, last) = await system.edges[0].ask()
    assert last["type"] == events.FAILED
    ended = await system.edges[1].complete()
    assert (ended["id"], ended["status"]) == (last["response"]["id"], "completed")


async def test_turn_that_can_never_be_stored_fails_for_every_request(system: System) -> None:
    system.edges[0].connection.commit_error = TooLarge("The response is too large.")
    first = await system.edges[0].ask()
    assert [event["code"] for event in first[-2:-1]] == ["request_too_large"]
    assert await system.edges[1].ask() == first
    with pytest.raises(TooLarge):
        await system.edges[2].complete()


@pytest.mark.parametrize("is_logged", [True, False])
async def test_failure_is_replayed_with_its_error(system: System, is_logged: bool) -> None:
    system.engine.pause_at, system.engine.fault = 3, EngineUnavailable("gone in mid-answer")
    first = await system.edges[0].ask()
    if not is_logged:
        system.clock.advance(2 * 3600)
    with pytest.raises(EngineUnavailable, match="gone in mid-answer"):
        await system.edges[1].complete()
    again = await system.edges[2].ask()
    assert [event["type"] for event in again[-2:]] == [events.ERROR, events.FAILED]
    assert again[-2]["error"] == first[-2]["error"]
    assert again[-1]["response"] == first[-1]["response"]
    assert len(system.engine.requests) == 1


async def test_rejection_by_the_engine_is_replayed_without_a_second_turn(system: System) -> None:
    system.engine.pause_at = 0
    system.engine.fault = InvalidRequest("Not that schema.", field="text.format", code="unsupported_value")
    for edge in system.edges:
        with pytest.raises(InvalidRequest) as caught:
            await edge.complete()
        assert (caught.value.field, caught.value.code) == ("text.format", "unsupported_value")
    assert len(system.engine.requests) == 1


@pytest.mark.parametrize("fault", [EngineUnavailable("overloaded"), EngineTimeout("no token")])
async def test_turn_that_failed_before_output_runs_again_for_the_next_request(
    system: System, fault: AntiphonError
) -> None:
    system.engine.pause_at, system.engine.fault = 0, fault
    failed = await system.edges[0].ask()
    assert failed[-1]["response"] == await system.stored(failed[0]["response"]["id"])
    with pytest.raises(type(fault)):
        await system.edges[1].complete()
    system.engine.pause_at = None
    ended = await system.edges[2].complete()
    assert ended["status"] == "completed"
    assert await system.edges[1].complete() == ended
    assert len(system.engine.requests) == 3


async def test_stream_ends_with_failed_when_the_store_stays_unavailable(system: System) -> None:
    system.edges[1].use(replace(TIMING, follow_retry=RetryPolicy(for_s=0.05, first_s=0.01)))
    system.engine.pause_at = 9
    first = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()
    reader = await system.edges[1].begin_stream()
    system.edges[1].kill()
    system.edges[2].kill()
    with pytest.raises(StoreUnavailable):
        await system.edges[2].ask()
    log = await reader
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert numbers(log) == list(range(len(log)))
    system.engine.go.set()
    assert (await first)[-1]["type"] == events.COMPLETED


async def test_short_store_outage_does_not_change_the_stream(system: System) -> None:
    system.engine.pause_at = 9
    first = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()
    reader = await system.edges[1].begin_stream()
    system.edges[1].connection.is_cut = True
    await asyncio.sleep(0.05)
    system.edges[1].connection.is_cut = False
    system.engine.go.set()
    assert await reader == await first


async def test_key_held_by_a_dead_edge_is_an_error_when_beginning_again_was_in_vain(system: System) -> None:
    system.edges[1].use(replace(TIMING, begins_max=2, begin_again_s=0))
    request = CreateRequest.parse(b'{"model":"m","input":"hi"}')
    accepted = await system.edges[0].turns._starter.begin(TENANT, request, key="k")  # and then the edge died
    assert isinstance(accepted, AcceptedTurn)
    with pytest.raises(Unavailable):
        await system.edges[1].ask()
    system.clock.advance(600)
    assert (await system.edges[1].ask())[-1]["type"] == events.COMPLETED


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_reader_whose_log_expires_in_mid_stream_gets_the_end_of_the_record(
    system: System, is_deleted: bool
) -> None:
    system.engine.pause_at = 9
    first = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()
    reading = await system.edges[1].begin_stream()
    system.edges[1].connection.is_cut = True
    await asyncio.sleep(5 * TIMING.silence_s)  # the open read of the log is given up
    system.engine.go.set()
    ended = (await first)[-1]
    if is_deleted:
        await system.store.delete(TENANT, ended["response"]["id"])
    system.clock.advance(2 * 3600)
    system.edges[1].connection.is_cut = False
    log = await reading
    assert numbers(log) == list(range(len(log)))
    if is_deleted:
        assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    else:
        assert (log[-1]["type"], log[-1]["response"]) == (events.COMPLETED, ended["response"])


async def test_reader_of_a_turn_whose_log_was_given_up_gets_the_end_of_the_record(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn is committed without its log, and its edge dies before it settles the job."""
    system.engine.pause_at = 9
    first = asyncio.create_task(system.edges[0].ask())
    await system.until_it_pauses()

    async def unavailable(*_arguments: Any, **_options: Any) -> None:
        raise StoreUnavailable("The store is away.")

    for method in ("append_events", "settle_job"):
        monkeypatch.setattr(system.edges[0].connection, method, unavailable, raising=False)
    reading = await system.edges[1].begin_stream()
    system.engine.go.set()
    ended = (await first)[-1]
    assert ended["type"] == events.COMPLETED
    system.clock.advance(JOB_LEASE_MS / 1000)
    log = await reading
    assert (log[-1]["type"], log[-1]["response"]) == (events.COMPLETED, ended["response"])
    assert numbers(log) == list(range(len(log)))
    assert len(system.engine.requests) == 1


@pytest.mark.parametrize("hours", [0, 2], ids=["from its log", "from its record"])
async def test_the_end_of_a_repeated_response_is_not_folded(
    system: System, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    await system.edges[0].ask()
    system.clock.advance(hours * 3600)
    folded: list[bytes] = []
    feed = Fold.feed

    def noted(fold: Fold, **given: Any) -> None:
        folded.append(given["frames"])
        feed(fold, **given)

    monkeypatch.setattr(Fold, "feed", noted)
    assert (await system.edges[1].ask())[-1]["type"] == events.COMPLETED
    assert not [frames for frames in folded if events.COMPLETED.encode() in frames]
