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
    ModelNotFound,
    StoreUnavailable,
    TooLarge,
    Unavailable,
)
from antiphon_core.flow import Flow
from antiphon_core.fold import Fold, fold
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Stamp, TurnCommit
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CreateRequest
from antiphon_edge.turns import idempotent_replies
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.keyed_jobs import KeyedJobs
from antiphon_edge.turns.lease_keeper import RenewalPace
from antiphon_edge.turns.store_retry import RetryPolicy
from antiphon_edge.turns.turn_service import TurnService
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS, TurnTiming
from antiphon_store.backends.registry import row_backend
from antiphon_store.rows.backend import RowBackend
from antiphon_store.service import StoreService
from tests.support.thinking_edges import LosableTranslator, Sayer, losable
from tests.support.turn_streams import sent

TENANT = "t"
TIMING = TurnTiming(
    linger_s=0, silence_s=0.02, append_retry=RetryPolicy(for_s=0.02, first_s=0.01), commit_retry=RetryPolicy(for_s=0)
)
SAID = ("<think>", "Hm.", "</think>", "Hello there.")


class Line:
    """An edge's connection to the store, until it is cut."""

    def __init__(self, store: StoreService) -> None:
        self._store = store
        self.is_cut = False
        self.commit_error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        if self.is_cut:
            raise StoreUnavailable("the line is cut")
        return getattr(self._store, name)

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        if self.commit_error is not None:
            raise self.commit_error
        stamp: Stamp = await self.__getattr__("commit_turn")(tenant, commit)
        return stamp


class Edge:
    def __init__(self, backend: RowBackend, translator: LosableTranslator, clock: ManualClock) -> None:
        self.line = Line(StoreService(backend))
        line: Any = self.line
        self._service = partial(TurnService, line, translator, clock=clock, ids=RandomIds())
        self.use(TIMING)

    def use(self, timing: TurnTiming) -> None:
        """From now on it has this timing."""
        self.turns = self._service(timing=timing)

    async def ask(self, key: str = "k", **members: Any) -> list[Object]:
        return [event async for event in self.stream(key, **members)]

    async def stream(self, key: str = "k", **members: Any) -> AsyncGenerator[Object, None]:
        request = CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))
        async with aclosing(sent(self.turns, TENANT, request, key=key)) as batches:
            async for batch in batches:
                for event in events.decode(batch.frames):
                    yield event

    async def begin_to_ask(self) -> asyncio.Task[list[Object]]:
        """A reading that has got something."""
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
        """Nothing that it does reaches anybody any more."""
        self.line.is_cut = True


class Town:
    """Three edges over one store."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = row_backend("memory://", clock=self.clock)
        self.store = StoreService(self.backend)
        self.sayer = Sayer(*SAID)
        self.translator = losable(self.sayer)
        self.edges = [Edge(self.backend, self.translator, self.clock) for _ in range(3)]

    async def until_it_pauses(self) -> None:
        """Waits until the model has said what it says before `go`; that is about to be written, if it is not yet."""
        async with asyncio.timeout(30):
            await self.sayer.paused.wait()
        await asyncio.sleep(0.05)

    async def stored(self, response_id: str) -> Object:
        record = await self.store.get(TENANT, response_id)
        answer: Object = loads(response.join(record.body, record.output_items))
        return answer


@pytest.fixture
async def town(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    town = Town()
    await town.backend.open()
    yield town
    town.sayer.go.set()
    for edge in town.edges:
        await edge.turns.settle()
    await town.backend.close()


def numbers(log: list[Object]) -> list[int]:
    return [event["sequence_number"] for event in log]


async def test_thirty_two_at_once_are_one(town: Town) -> None:
    logs = await asyncio.gather(*(town.edges[n % 3].ask() for n in range(32)))
    assert all(log == logs[0] for log in logs)
    assert len(town.sayer.requests) == 1
    assert fold(logs[0]) == await town.stored(logs[0][0]["response"]["id"])


async def test_who_comes_later_gets_the_same_from_the_beginning(town: Town) -> None:
    town.sayer.pause_at = 9
    first = asyncio.create_task(town.edges[0].ask())
    await town.until_it_pauses()
    second = asyncio.create_task(town.edges[1].ask())
    await asyncio.sleep(0.1)
    town.sayer.go.set()
    assert await first == await second == await town.edges[2].ask()
    whole = await town.edges[2].complete()
    assert whole == (await first)[-1]["response"]
    assert len(town.sayer.requests) == 1


async def test_when_the_log_is_gone_it_is_told_again(town: Town) -> None:
    first = await town.edges[0].ask()
    town.clock.advance(2 * 3600)
    again = await town.edges[1].ask()
    assert again[-1]["response"] == first[-1]["response"]
    assert numbers(again) == list(range(len(again)))


async def test_another_request_under_the_key_is_refused_at_any_time(town: Town) -> None:
    town.sayer.pause_at = 5
    first = asyncio.create_task(town.edges[0].ask())
    await town.until_it_pauses()
    with pytest.raises(IdempotencyMismatch):
        await town.edges[1].ask(input="other")
    town.sayer.go.set()
    await first
    with pytest.raises(IdempotencyMismatch):
        await town.edges[1].ask(input="other")


async def test_a_first_one_that_came_to_nothing_leaves_its_place(town: Town) -> None:
    asked = [town.edges[n % 3].ask(model="other") for n in range(6)]
    for outcome in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(outcome, ModelNotFound)


async def test_a_first_one_whose_edge_died_at_once_does_not_keep_the_key(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = 0

    async def abort_turn(*arguments: Any, **options: Any) -> None:
        """Releases only the turn of the dead edge. The next turn lives, and keeps the key for as long as it needs."""
        nonlocal releases
        releases += 1
        if releases == 1:
            await town.store.abort_turn(*arguments, **options)

    for edge in town.edges:
        edge.use(replace(TIMING, stale_key_s=0.3))
        monkeypatch.setattr(edge.line, "abort_turn", abort_turn, raising=False)
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    dead = await town.edges[0].turns.starter.begin(TENANT, request, key="k")
    assert isinstance(dead, AcceptedTurn)
    logs = await asyncio.gather(*(town.edges[n % 3].ask() for n in range(8)))
    assert all(log == logs[0] for log in logs)
    assert logs[0][-1]["type"] == events.COMPLETED
    assert logs[0][0]["response"]["id"] != dead.response_id
    assert len(town.sayer.requests) == 1


async def test_a_first_one_that_is_slow_keeps_its_key_for_a_while(town: Town) -> None:
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    slow = await town.edges[0].turns.starter.begin(TENANT, request, key="k")
    assert isinstance(slow, AcceptedTurn)
    asking = asyncio.create_task(town.edges[1].ask())
    await asyncio.sleep(0.5)
    held = await town.edges[0].turns._keyed_turns.hold(slow)
    assert held is not None
    batches: list[Batch] = []
    await town.edges[0].turns._keyed_turns.run(held, batches.append, Flow())
    told = [event for batch in batches for event in events.decode(batch.frames)]
    assert await asking == told
    assert len(town.sayer.requests) == 1


async def test_a_turn_that_takes_longer_than_a_claim_is_still_found(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = RenewalPace(every_s=0.005, retry_s=0.005)
    for edge in town.edges:
        edge.use(replace(TIMING, job_pace=pace, key_pace=pace, job_lease_ms=600_000))
    claims, claim_key = 0, KeyedJobs._claim_key

    async def counted(self: KeyedJobs, accepted: AcceptedTurn) -> None:
        nonlocal claims
        await claim_key(self, accepted)
        claims += 1

    async def until_claimed_again() -> None:
        """A whole beat."""
        enough = claims + 2
        async with asyncio.timeout(30):
            while claims < enough:
                await asyncio.sleep(0.001)

    monkeypatch.setattr(KeyedJobs, "_claim_key", counted)
    town.sayer.pause_at = 9
    first = asyncio.create_task(town.edges[0].ask())
    await town.until_it_pauses()
    for _ in range(5):
        town.clock.advance(300)
        await until_claimed_again()
    second = asyncio.create_task(town.edges[1].ask())
    await asyncio.sleep(0.1)
    town.sayer.go.set()
    assert await first == await second
    assert len(town.sayer.requests) == 1


async def test_a_caller_that_comes_back_finds_it_going_on(town: Town) -> None:
    town.sayer.pause_at = 9
    async with aclosing(town.edges[0].stream()) as stream:
        first = await anext(stream)
    town.sayer.go.set()
    log = await town.edges[1].ask()
    assert (log[0], log[-1]["type"]) == (first, events.COMPLETED)
    assert len(town.sayer.requests) == 1


@pytest.mark.parametrize("pause_at", [0, 3, 9, 14])
async def test_when_its_edge_dies_another_goes_on_and_readers_notice_nothing(town: Town, pause_at: int) -> None:
    town.sayer.pause_at = pause_at
    dying = asyncio.create_task(town.edges[0].ask())
    await town.until_it_pauses()
    readers = [asyncio.create_task(town.edges[n].ask()) for n in (1, 2, 1)]
    await asyncio.sleep(0.05)
    town.edges[0].kill()
    town.sayer.pause_at = None
    town.clock.advance(JOB_LEASE_MS / 1000)
    logs = await asyncio.gather(*readers)
    assert all(log == logs[0] for log in logs)
    assert numbers(logs[0]) == list(range(len(logs[0])))
    other = await town.edges[1].ask(key="other")
    assert [event["type"] for event in logs[0]] == [event["type"] for event in other]
    ended = logs[0][-1]["response"]
    assert fold(logs[0]) == ended == await town.stored(ended["id"])
    assert len(town.sayer.requests) == 3  # accepted, gone on with, and the other one
    town.sayer.go.set()
    await asyncio.gather(dying, return_exceptions=True)
    assert await town.stored(ended["id"]) == ended


async def test_who_comes_after_the_death_goes_on_with_it(town: Town) -> None:
    town.sayer.pause_at = 9
    dying = asyncio.create_task(town.edges[0].ask())
    await town.until_it_pauses()
    town.edges[0].kill()
    town.sayer.pause_at = None
    town.clock.advance(JOB_LEASE_MS / 1000)
    ended = await town.edges[1].complete()
    assert ended["output"][-1]["content"][0]["text"] == "Hello there."
    town.sayer.go.set()
    await asyncio.gather(dying, return_exceptions=True)


async def test_a_response_that_could_not_be_stored_is_finished_by_who_comes_next(town: Town) -> None:
    town.edges[0].line.commit_error = StoreUnavailable("gone")
    (*_, last) = await town.edges[0].ask()
    assert last["type"] == events.FAILED
    ended = await town.edges[1].complete()
    assert (ended["id"], ended["status"]) == (last["response"]["id"], "completed")


async def test_one_that_can_never_be_stored_fails_for_all(town: Town) -> None:
    town.edges[0].line.commit_error = TooLarge("The response is too large.")
    first = await town.edges[0].ask()
    assert [event["code"] for event in first[-2:-1]] == ["request_too_large"]
    assert await town.edges[1].ask() == first
    with pytest.raises(TooLarge):
        await town.edges[2].complete()


@pytest.mark.parametrize("is_logged", [True, False])
async def test_a_failure_is_remembered_as_what_it_was(town: Town, is_logged: bool) -> None:
    town.sayer.pause_at, town.sayer.fault = 3, EngineUnavailable("gone in mid-answer")
    first = await town.edges[0].ask()
    if not is_logged:
        town.clock.advance(2 * 3600)
    with pytest.raises(EngineUnavailable, match="gone in mid-answer"):
        await town.edges[1].complete()
    again = await town.edges[2].ask()
    assert [event["type"] for event in again[-2:]] == [events.ERROR, events.FAILED]
    assert again[-2]["error"] == first[-2]["error"]
    assert again[-1]["response"] == first[-1]["response"]
    assert len(town.sayer.requests) == 1


async def test_what_the_engine_found_wrong_before_it_said_anything_is_remembered_too(town: Town) -> None:
    town.sayer.pause_at = 0
    town.sayer.fault = InvalidRequest("Not that schema.", field="text.format", code="unsupported_value")
    for edge in town.edges:
        with pytest.raises(InvalidRequest) as caught:
            await edge.complete()
        assert (caught.value.field, caught.value.code) == ("text.format", "unsupported_value")
    assert len(town.sayer.requests) == 1


@pytest.mark.parametrize("fault", [EngineUnavailable("overloaded"), EngineTimeout("no token")])
async def test_what_came_to_nothing_is_served_anew(town: Town, fault: AntiphonError) -> None:
    town.sayer.pause_at, town.sayer.fault = 0, fault
    failed = await town.edges[0].ask()
    assert failed[-1]["response"] == await town.stored(failed[0]["response"]["id"])
    with pytest.raises(type(fault)):
        await town.edges[1].complete()
    town.sayer.pause_at = None
    ended = await town.edges[2].complete()
    assert ended["status"] == "completed"
    assert await town.edges[1].complete() == ended
    assert len(town.sayer.requests) == 3


async def test_a_reader_is_told_when_the_store_stays_away(town: Town) -> None:
    town.edges[1].use(replace(TIMING, look_again=RetryPolicy(for_s=0.05, first_s=0.01)))
    town.sayer.pause_at = 9
    first = asyncio.create_task(town.edges[0].ask())
    await town.until_it_pauses()
    reader = await town.edges[1].begin_to_ask()
    town.edges[1].kill()
    town.edges[2].kill()
    with pytest.raises(StoreUnavailable):
        await town.edges[2].ask()
    log = await reader
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert numbers(log) == list(range(len(log)))
    town.sayer.go.set()
    assert (await first)[-1]["type"] == events.COMPLETED


async def test_a_store_that_is_away_for_a_moment_is_not_noticed(town: Town) -> None:
    town.sayer.pause_at = 9
    first = asyncio.create_task(town.edges[0].ask())
    await town.until_it_pauses()
    reader = await town.edges[1].begin_to_ask()
    town.edges[1].line.is_cut = True
    await asyncio.sleep(0.05)
    town.edges[1].line.is_cut = False
    town.sayer.go.set()
    assert await reader == await first


async def test_a_key_that_stays_taken_for_nothing_is_an_error_in_the_end(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotent_replies, "ROUNDS_MAX", 2)
    monkeypatch.setattr(idempotent_replies, "AGAIN_S", 0)
    request = CreateRequest.parse(b'{"model":"m","input":"hi"}')
    accepted = await town.edges[0].turns.starter.begin(TENANT, request, key="k")  # and then its edge died
    assert isinstance(accepted, AcceptedTurn)
    with pytest.raises(Unavailable):
        await town.edges[1].ask()
    town.clock.advance(600)
    assert (await town.edges[1].ask())[-1]["type"] == events.COMPLETED


async def test_a_reader_whose_log_expires_in_mid_stream_gets_one_clear_end(town: Town) -> None:
    town.sayer.pause_at = 9
    first = asyncio.create_task(town.edges[0].ask())
    await town.until_it_pauses()
    reading = await town.edges[1].begin_to_ask()
    town.edges[1].line.is_cut = True
    await asyncio.sleep(5 * TIMING.silence_s)  # the open read of the log is given up
    town.sayer.go.set()
    await first
    town.clock.advance(2 * 3600)
    town.edges[1].line.is_cut = False
    log = await reading
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert numbers(log) == list(range(len(log)))


@pytest.mark.parametrize("hours", [0, 2], ids=["from its log", "from its record"])
async def test_the_end_of_a_repeated_response_is_not_folded(
    town: Town, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    await town.edges[0].ask()
    town.clock.advance(hours * 3600)
    folded: list[bytes] = []
    feed = Fold.feed

    def noted(fold: Fold, **given: Any) -> None:
        folded.append(given["frames"])
        feed(fold, **given)

    monkeypatch.setattr(Fold, "feed", noted)
    assert (await town.edges[1].ask())[-1]["type"] == events.COMPLETED
    assert not [frames for frames in folded if events.COMPLETED.encode() in frames]
