from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    EngineUnavailable,
    IdempotencyMismatch,
    LogNotFound,
    ModelNotFound,
    ResponseNotFound,
    SessionLocked,
    StaleFence,
    StoreUnavailable,
    TooLarge,
)
from antiphon_core.flow import Flow
from antiphon_core.fold import fold
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.store import Fence, Lease, Stamp, Status, TurnCommit
from antiphon_core.ports.translator import Batch
from antiphon_core.request import CreateRequest
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turns import log_state
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.lease_keeper import RenewalPace
from antiphon_edge.turns.log_state import LogState
from antiphon_edge.turns.metering import Meter
from antiphon_edge.turns.store_retry import RetryPolicy
from antiphon_edge.turns.turn_runner import TurnRun
from antiphon_edge.turns.turn_service import TurnService
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS, TurnTiming
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.service import StoreService
from antiphon_store.wrappers.faulty import Fault, FaultyBackend, When
from tests.support.pushed import pulled
from tests.support.thinking_edges import LosableTranslator, Sayer, losable
from tests.support.translators import ScriptedTranslator
from tests.support.turn_streams import sent

TENANT = "t"
TIMING = TurnTiming(linger_s=0)
FAST = RenewalPace(every_s=0.01, retry_s=0.01)
IMPATIENT = TurnTiming(linger_s=0, append_retry=RetryPolicy(for_s=0), commit_retry=RetryPolicy(for_s=0))
SAID = ("<think>", "Hm.", "</think>", "Hello there.")


def request_of(**members: Any) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))


class SlowCommits:
    """A store whose commits take until `go`."""

    def __init__(self, store: StoreService) -> None:
        self._store = store
        self.go = asyncio.Event()
        self.go.set()
        self.asked = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        self.asked.set()
        await self.go.wait()
        return await self._store.commit_turn(tenant, commit)


class Bench:
    """An edge over a real store and a real translator."""

    def __init__(self, translator: LosableTranslator | ScriptedTranslator | None = None) -> None:
        self.clock = ManualClock()
        self.backend = FaultyBackend(MemoryBackend(self.clock))
        self.store = StoreService(self.backend)
        self.slow = SlowCommits(self.store)
        self.sayer = Sayer(*SAID)
        self.translator = translator or losable(self.sayer)
        self.charged: list[tuple[str, int]] = []
        self.sent: list[Batch] = []
        self.sealer = Sealer.of(None, ttl_s=10, clock=self.clock)
        self.use(TIMING)

    def use(self, timing: TurnTiming) -> None:
        """From now on its edge has this timing."""
        slow: Any = self.slow
        self.turns = TurnService(
            slow,
            self.translator,
            clock=self.clock,
            ids=RandomIds(),
            sealer=self.sealer,
            meter=Meter(lambda tenant, tokens: self.charged.append((tenant, tokens))),
            timing=timing,
        )
        self.starter = self.turns.starter
        self.keyed_turns = self.turns._keyed_turns
        self.keyed_jobs = self.turns._keyed_jobs

    async def begin(self, *, session_id: str | None = None, key: str | None = None, **members: Any) -> AcceptedTurn:
        accepted = await self.starter.begin(TENANT, request_of(**members), session_id=session_id, key=key)
        assert isinstance(accepted, AcceptedTurn)
        if key is None:
            return accepted
        held = await self.keyed_turns.hold(accepted)
        assert held is not None
        return held

    async def until_it_pauses(self) -> None:
        async with asyncio.timeout(30):
            await self.sayer.paused.wait()

    def run(self, accepted: AcceptedTurn, state: LogState | None = None, **options: Any) -> AsyncGenerator[Batch, None]:
        """The batches of a turn. Closing the generator is the caller leaving, or the edge stopping for a keyed turn."""

        async def run(take: Callable[[Batch], object]) -> None:
            def receive(batch: Batch) -> None:
                self.sent.append(batch)
                take(batch)

            if accepted.key is None:
                await self.turns.run(accepted, receive, Flow(), **options)
            else:
                keyed = TurnRun(accepted, receive, state=state or LogState())
                await self.keyed_turns._run(keyed, is_takeover=state is not None)

        return pulled(run)

    def detached(self, accepted: AcceptedTurn) -> AsyncGenerator[Batch, None]:
        """The batches of a keyed turn. Closing the generator is the caller leaving."""

        async def run(take: Callable[[Batch], object]) -> None:
            def receive(batch: Batch) -> None:
                take(batch)

            await self.keyed_turns.run(accepted, receive, Flow())

        return pulled(run)

    async def play(self, accepted: AcceptedTurn, state: LogState | None = None, **options: Any) -> list[Object]:
        batches = self.run(accepted, state, **options)
        return [event async for batch in batches for event in events.decode(batch.frames)]

    async def logged(self, accepted: AcceptedTurn) -> list[Object]:
        log = self.store.read_events(TENANT, accepted.response_id)
        return [event async for batch in log for event in events.decode(batch.frames)]

    async def stored(self, accepted: AcceptedTurn) -> Object:
        record = await self.store.get(TENANT, accepted.response_id)
        answer: Object = loads(response.join(record.body, record.output_items))
        return answer

    async def settle(self) -> None:
        await self.turns.settle()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.settle()
    await bench.backend.close()


async def test_a_turn_ends_in_its_record(bench: Bench) -> None:
    accepted = await bench.begin()
    log = await bench.play(accepted)
    assert fold(log) == log[-1]["response"] == await bench.stored(accepted)
    with pytest.raises(LogNotFound):
        await bench.logged(accepted)


async def test_under_a_key_its_log_is_its_stream_and_its_job_is_done(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    assert await bench.play(accepted) == await bench.logged(accepted)
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED


async def test_a_caller_that_leaves_during_the_commit_cannot_undo_it(bench: Bench) -> None:
    bench.slow.go.clear()
    accepted = await bench.begin(session_id="s")
    caller = asyncio.create_task(bench.play(accepted))
    await bench.slow.asked.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    bench.slow.go.set()
    await bench.settle()
    assert (await bench.stored(accepted))["status"] == "completed"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


async def test_a_caller_that_leaves_before_stops_the_model_and_is_recorded(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    accepted = await bench.begin(session_id="s")
    async with aclosing(bench.run(accepted)) as batches:
        async for batch in batches:
            if b"output_text.delta" in batch.frames:
                break
    assert bench.sayer.stopped.is_set()
    await bench.settle()
    assert (await bench.stored(accepted))["status"] == "cancelled"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


async def test_what_a_turn_took_is_charged_once(bench: Bench) -> None:
    log = await bench.play(await bench.begin())
    assert bench.charged == [(TENANT, log[-1]["response"]["usage"]["total_tokens"])]


async def test_what_was_said_to_a_caller_that_left_is_charged(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    async with aclosing(bench.run(await bench.begin())) as batches:
        async for _ in heard_to_its_text(batches):
            pass
    await bench.settle()
    sent_ids = [token for batch in bench.sent for token in batch.token_ids]
    assert bench.charged == [(TENANT, len(sent_ids))]
    assert sent_ids


async def test_a_turn_that_nobody_told_anything_of_is_free(bench: Bench) -> None:
    with pytest.raises(ModelNotFound):
        await bench.play(await bench.begin(model="other"))
    assert bench.charged == []


async def test_what_was_said_of_a_turn_that_broke_is_charged() -> None:
    bench = Bench(ScriptedTranslator(fault=ZeroDivisionError()))
    await bench.backend.open()
    assert (await bench.play(await bench.begin()))[-1]["type"] == events.FAILED
    assert bench.charged == [(TENANT, 0)]  # this one brings no ids


async def test_a_turn_under_a_key_is_charged_by_whoever_ends_it(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    accepted = await bench.begin(key="k")
    async with aclosing(bench.run(accepted)) as batches:
        async for _ in heard_to_its_text(batches):
            pass
    await bench.settle()
    assert bench.charged == []


async def heard_to_its_text(batches: AsyncGenerator[Batch, None]) -> AsyncIterator[Batch]:
    """The batches up to the first text of the answer."""
    async for batch in batches:
        yield batch
        if b"output_text.delta" in batch.frames:
            return


async def test_what_a_refused_turn_took_is_free_before_its_caller_hears_of_it(bench: Bench) -> None:
    for options in ({"session_id": "s"}, {"key": "k"}):
        accepted = await bench.begin(model="other", **options)
        with pytest.raises(ModelNotFound):
            await bench.play(accepted)
        again = await bench.begin(**options)
        assert again.response_id != accepted.response_id
        await bench.play(again)


async def test_a_turn_under_a_key_that_came_to_nothing_stands_beside_its_session(bench: Bench) -> None:
    await bench.play(await bench.begin(session_id="s"))
    before = await bench.store.describe_session(TENANT, "s")
    bench.sayer.pause_at, bench.sayer.fault = 0, EngineUnavailable("overloaded")
    accepted = await bench.begin(key="k", session_id="s")
    log = await bench.play(accepted)
    assert fold(log) == await bench.stored(accepted)
    session = await bench.store.describe_session(TENANT, "s")
    assert (session.head_id, session.lease) == (before.head_id, None)
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED
    bench.sayer.pause_at = None
    again = await bench.begin(key="k", session_id="s")
    assert (await bench.play(again))[-1]["type"] == events.COMPLETED


async def test_one_whose_failure_cannot_be_stored_is_left_to_who_comes_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.use(IMPATIENT)
    bench.sayer.pause_at, bench.sayer.fault = 0, EngineUnavailable("overloaded")
    accepted = await bench.begin(key="k")
    bench.backend.plan(Fault("commit_turn", When.BEFORE))
    await bench.play(accepted)
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.QUEUED


async def test_what_cannot_be_given_back_does_not_hide_the_error(bench: Bench) -> None:
    accepted = await bench.begin(model="other", session_id="s")
    bench.backend.plan(Fault("release_lease", When.BEFORE))
    with pytest.raises(ModelNotFound):
        await bench.play(accepted)


async def refused(bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception) -> tuple[AcceptedTurn, list[Object]]:
    """A turn whose log cannot be written behind its first events."""

    async def refuse(*_: Any, **__: Any) -> int:
        raise error

    bench.use(IMPATIENT)
    bench.sayer.pause_at = 5
    accepted = await bench.begin(key="k")
    playing = asyncio.create_task(bench.play(accepted))
    await bench.until_it_pauses()
    monkeypatch.setattr(bench.slow, "append_events", refuse, raising=False)
    bench.sayer.go.set()
    log = await playing
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    return accepted, log


async def test_a_turn_is_more_than_its_log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted, log = await refused(bench, monkeypatch, StoreUnavailable("full"))
    assert log[-1]["type"] == events.COMPLETED
    assert await bench.stored(accepted) == log[-1]["response"]
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED


async def test_who_repeats_it_is_told_all_of_it_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted, log = await refused(bench, monkeypatch, StoreUnavailable("full"))
    again = sent(bench.turns, TENANT, request_of(), key="k")
    async with asyncio.timeout(5):
        told = [event async for batch in again for event in events.decode(batch.frames)]
    assert fold(told) == log[-1]["response"] == await bench.stored(accepted)


async def test_a_turn_that_somebody_else_runs_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = StaleFence.of("s", token=1)
    _, log = await refused(bench, monkeypatch, stale)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]


async def test_under_a_key_it_goes_on_without_its_caller(bench: Bench) -> None:
    bench.sayer.pause_at = 3
    accepted = await bench.begin(key="k")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
    bench.sayer.go.set()
    while (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.RUNNING:
        await asyncio.sleep(0.001)
    assert (await bench.stored(accepted))["status"] == "completed"


@pytest.mark.parametrize("slow", ["enqueue_job", "claim_job"])
async def test_a_caller_that_leaves_while_its_turn_is_taken_up_leaves_nothing(bench: Bench, slow: str) -> None:
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    accepted = await bench.starter.begin(TENANT, request, key="k")
    assert isinstance(accepted, AcceptedTurn)
    bench.backend.plan(Fault(slow, When.BEFORE, error=None, delay_s=0.05))
    caller = asyncio.create_task(bench.keyed_turns.hold(accepted))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await bench.settle()
    assert not await bench.keyed_jobs.is_open(TENANT, accepted.response_id)
    assert isinstance(await bench.starter.begin(TENANT, request, key="k"), AcceptedTurn)


async def test_a_caller_that_leaves_takes_nothing_from_whoever_was_faster(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    bench.backend.plan(Fault("enqueue_job", When.BEFORE, error=None, delay_s=0.05))
    caller = asyncio.create_task(bench.keyed_turns.hold(accepted))
    await asyncio.sleep(0.01)
    caller.cancel()
    await asyncio.wait([caller])
    await bench.settle()
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).cancel_requested is False
    assert (await bench.play(accepted))[-1]["type"] == events.COMPLETED


async def test_what_is_wrong_with_it_is_its_callers_to_know(bench: Bench) -> None:
    with pytest.raises(ModelNotFound):
        await anext(bench.detached(await bench.begin(key="k", model="other")))


async def taken_over(bench: Bench, accepted: AcceptedTurn) -> tuple[AcceptedTurn, LogState]:
    """A turn whose edge fell silent, as another one finds it."""
    bench.clock.advance(JOB_LEASE_MS / 1000)
    taken = await bench.keyed_jobs.take_over(RepeatedRequest(TENANT, accepted.response_id, None, "k"))
    assert taken is not None
    return taken, await log_state.read(bench.store, TENANT, accepted.response_id)


@pytest.mark.parametrize("pause_at", range(0, 16, 3))
async def test_an_edge_that_stops_leaves_its_turns_to_others(bench: Bench, pause_at: int) -> None:
    bench.sayer.pause_at = pause_at
    accepted = await bench.begin(key="k")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
        await bench.until_it_pauses()
        await bench.settle()
    assert bench.sayer.stopped.is_set()
    with pytest.raises(ResponseNotFound):
        await bench.stored(accepted)
    taken, said = await taken_over(bench, accepted)
    bench.sayer.pause_at = None
    await bench.play(taken, state=said)
    log = await bench.logged(accepted)
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    other = await bench.play(await bench.begin())
    assert [event["type"] for event in log] == [event["type"] for event in other]
    assert fold(log) == await bench.stored(accepted)


async def test_an_edge_that_only_slept_cannot_write_over_its_successor(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    accepted = await bench.begin(key="k")
    sleeping = asyncio.create_task(bench.play(accepted))
    await bench.until_it_pauses()
    taken, said = await taken_over(bench, accepted)
    bench.sayer.pause_at = None
    successor = await bench.play(taken, state=said)
    bench.sayer.say("<think>", "Hm.", "</think>", "Something else.")
    bench.sayer.go.set()
    assert (await sleeping)[-1]["response"]["status"] == "failed"
    assert (await bench.stored(accepted)) == successor[-1]["response"]
    assert successor[-1]["type"] == events.COMPLETED


@pytest.mark.parametrize("pause_at", [0, 9, 16])
async def test_a_lease_that_ran_out_ends_no_turn_that_nobody_took_over(bench: Bench, pause_at: int) -> None:
    """The store was away for longer than the lease: its clock went on, and no heartbeat reached it."""
    bench.sayer.pause_at = pause_at
    accepted = await bench.begin(key="k")
    playing = asyncio.create_task(bench.play(accepted))
    await asyncio.sleep(0.02)
    bench.clock.advance(JOB_LEASE_MS / 1000)
    bench.sayer.go.set()
    log = await playing
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert log == await bench.logged(accepted)
    assert (log[-1]["type"], log[-1]["response"]) == (events.COMPLETED, await bench.stored(accepted))
    assert len(bench.sayer.requests) == 1
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED


async def test_in_a_session_that_went_on_it_cannot_be_finished(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    accepted = await bench.begin(key="k", session_id="s")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
        await bench.until_it_pauses()
        await bench.settle()
    bench.clock.advance(31)
    bench.sayer.pause_at = None
    await bench.play(await bench.begin(session_id="s"))
    taken, said = await taken_over(bench, accepted)
    (*_, last) = await bench.play(taken, state=said)
    assert (last["type"], (await bench.stored(accepted))["status"]) == (events.FAILED, "failed")
    session = await bench.store.describe_session(TENANT, "s")
    assert session.lease is None
    assert session.head_id != accepted.response_id


async def test_where_others_have_the_session_nothing_is_accepted(bench: Bench) -> None:
    accepted = await bench.begin(key="k", session_id="s")
    bench.clock.advance(31)
    await bench.begin(session_id="s")
    taken, said = await taken_over(bench, accepted)
    with pytest.raises(SessionLocked):
        await bench.play(taken, state=said)


async def overtaken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> tuple[AcceptedTurn, list[Object]]:
    """A turn whose session is somebody else's from the middle of its answer on."""
    bench.use(replace(TIMING, session_pace=FAST))
    bench.sayer.pause_at = 9
    accepted = await bench.begin(key=key, session_id="s")
    playing = asyncio.create_task(bench.play(accepted))
    await bench.until_it_pauses()
    assert accepted.fence is not None
    await bench.store.release_session(TENANT, accepted.fence)
    await bench.store.acquire_session(TENANT, "s", holder="other")
    return accepted, await playing


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_turn_whose_session_is_lost_stops_its_model_and_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    accepted, log = await overtaken(bench, monkeypatch, key)
    assert bench.sayer.stopped.is_set()
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert (log[-2]["code"], log[-2]["param"]) == ("conversation_lost", "conversation")
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    with pytest.raises(ResponseNotFound):
        await bench.stored(accepted)
    session = await bench.store.describe_session(TENANT, "s")
    assert session.lease is not None
    assert (session.head_id, session.lease.holder) == (None, "other")


async def test_its_key_is_free_and_its_readers_are_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted, log = await overtaken(bench, monkeypatch, "k")
    assert await bench.logged(accepted) == log
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED
    lease = (await bench.store.describe_session(TENANT, "s")).lease
    assert lease is not None
    await bench.store.release_session(TENANT, lease.fence)
    bench.sayer.pause_at = None
    assert (await bench.play(await bench.begin(key="k", session_id="s")))[-1]["type"] == events.COMPLETED


async def test_its_successor_keeps_key_and_session(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edge that slept for longer than all its leases wakes up while another one goes on."""
    awake = asyncio.Event()

    async def renew_session(tenant: str, fence: Fence) -> Lease:
        await awake.wait()
        return await bench.store.renew_session(tenant, fence)

    bench.use(replace(TIMING, session_pace=RenewalPace(every_s=0, retry_s=0)))
    monkeypatch.setattr(bench.slow, "renew_session", renew_session, raising=False)
    bench.sayer.pause_at = 9
    accepted = await bench.begin(key="k", session_id="s")
    sleeping = asyncio.create_task(bench.play(accepted))
    await bench.until_it_pauses()
    bench.clock.advance(31)
    taken, said = await taken_over(bench, accepted)
    bench.sayer.pause_at = 12
    successor = asyncio.create_task(bench.play(taken, state=said))
    while len(bench.sayer.requests) < 2:
        await asyncio.sleep(0.001)
    awake.set()
    assert (await sleeping)[-2]["code"] == "conversation_lost"
    with pytest.raises(IdempotencyMismatch):
        await bench.begin(key="k", session_id="s", input="something else")
    bench.sayer.go.set()
    assert (await successor)[-1]["type"] == events.COMPLETED
    assert (await bench.stored(accepted))["status"] == "completed"
    assert (await bench.store.describe_session(TENANT, "s")).head_id == accepted.response_id


@pytest.mark.parametrize(("key", "atom"), [(None, "commit_turn"), ("k", "commit_turn_once")])
async def test_a_session_whose_turn_cannot_be_stored_is_free_at_once(bench: Bench, key: str | None, atom: str) -> None:
    bench.backend.plan(Fault(atom, When.BEFORE, error=TooLarge))
    accepted = await bench.begin(key=key, session_id="s")
    assert (await bench.play(accepted))[-2]["code"] == "request_too_large"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_session_that_is_lost_at_the_very_end_is_told_as_such(bench: Bench, key: str | None) -> None:
    bench.slow.go.clear()
    accepted = await bench.begin(key=key, session_id="s")
    playing = asyncio.create_task(bench.play(accepted))
    await bench.slow.asked.wait()
    assert accepted.fence is not None
    await bench.store.release_session(TENANT, accepted.fence)
    bench.slow.go.set()
    assert (await playing)[-2]["code"] == "conversation_lost"
    assert (await bench.play(await bench.begin(key=key, session_id="s")))[-1]["type"] == events.COMPLETED


async def test_a_store_that_is_away_for_a_while_ends_no_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use(replace(TIMING, session_pace=FAST))
    bench.sayer.pause_at = 9
    accepted = await bench.begin(session_id="s")
    bench.backend.plan(*[Fault("renew_lease", When.BEFORE)] * 3)
    playing = asyncio.create_task(bench.play(accepted))
    while bench.backend._planned:
        await asyncio.sleep(0.005)
    bench.sayer.go.set()
    assert (await playing)[-1]["type"] == events.COMPLETED


async def test_what_came_as_text_cannot_be_gone_on_with() -> None:
    bench = Bench(ScriptedTranslator(hang=True))
    await bench.backend.open()
    accepted = await bench.begin(key="k")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
        async with asyncio.timeout(30):
            while (
                await log_state.read(bench.store, TENANT, accepted.response_id)
            ).fold.next_sequence < 6:  # with its words
                await asyncio.sleep(0.001)
        await bench.settle()
    taken, said = await taken_over(bench, accepted)
    (*_, last) = await bench.play(taken, state=said)
    assert last["response"]["error"]["message"].startswith("The response was interrupted")
    assert (await bench.store.get(TENANT, accepted.response_id)).status is Status.FAILED
    await bench.settle()
    await bench.backend.close()


async def test_a_turn_that_could_not_be_held_is_forgotten(bench: Bench) -> None:
    bench.backend.plan(Fault("enqueue_job", When.BEFORE))
    with pytest.raises(StoreUnavailable):
        await bench.begin(key="k")
    await bench.settle()
    assert isinstance(await bench.begin(key="k"), AcceptedTurn)


async def test_one_that_others_took_up_at_once_is_theirs(bench: Bench) -> None:
    accepted = replace(await bench.begin(key="k"), key="k")
    assert await bench.keyed_turns.hold(accepted) is None
    request = CreateRequest.parse(b'{"model":"m","input":"hi"}')
    assert isinstance(await bench.starter.begin(TENANT, request, key="k"), RepeatedRequest)
