from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
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
from antiphon_core.fold import fold
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.store import Fence, Lease, Stamp, Status, TurnCommit
from antiphon_core.ports.translator import Batch
from antiphon_core.request import CreateRequest
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turns import leases, store_patience, told
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.idempotent_replies import IdempotentReplies
from antiphon_edge.turns.keyed_jobs import LEASE_MS, KeyedJobs
from antiphon_edge.turns.metering import Meter
from antiphon_edge.turns.turn_runner import Runs
from antiphon_edge.turns.turn_starter import TurnStarter
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.service import StoreService
from antiphon_store.wrappers.faulty import Fault, FaultyBackend, When
from tests.support.thinking_edges import LosableTranslator, Sayer, losable
from tests.support.translators import ScriptedTranslator

TENANT = "t"
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
    """An edge's runs over a real store and a real translator."""

    def __init__(self, translator: LosableTranslator | ScriptedTranslator | None = None) -> None:
        self.clock = ManualClock()
        self.backend = FaultyBackend(MemoryBackend(self.clock))
        self.store = StoreService(self.backend)
        self.slow = SlowCommits(self.store)
        self.sayer = Sayer(*SAID)
        slow: Any = self.slow
        sealer = Sealer.of(None, ttl_s=10, clock=self.clock)
        self.beginnings = TurnStarter(slow, clock=self.clock, ids=RandomIds(), sealer=sealer)
        self.holdings = KeyedJobs(slow, ids=RandomIds())
        self.translator = translator or losable(self.sayer)
        self.charged: list[tuple[str, int]] = []
        meter = Meter(lambda tenant, tokens: self.charged.append((tenant, tokens)))
        self.runs = Runs(slow, self.translator, self.beginnings, self.holdings, meter)
        self.repetitions = IdempotentReplies(self.store, self.runs, self.holdings)

    async def begin(self, *, session_id: str | None = None, key: str | None = None, **members: Any) -> AcceptedTurn:
        begun = await self.beginnings.begin(TENANT, request_of(**members), session_id=session_id, key=key)
        assert isinstance(begun, AcceptedTurn)
        if key is None:
            return begun
        held = await self.runs.hold(begun)
        assert held is not None
        return held

    async def until_it_pauses(self) -> None:
        async with asyncio.timeout(30):
            await self.sayer.paused.wait()

    async def play(self, begun: AcceptedTurn, **options: Any) -> list[Object]:
        batches = self.runs.run(begun, **options)
        return [event async for batch in batches for event in events.decode(batch.frames)]

    async def logged(self, begun: AcceptedTurn) -> list[Object]:
        log = self.store.read_events(TENANT, begun.response_id)
        return [event async for batch in log for event in events.decode(batch.frames)]

    async def stored(self, begun: AcceptedTurn) -> Object:
        record = await self.store.get(TENANT, begun.response_id)
        answer: Object = loads(response.join(record.body, record.output_items))
        return answer

    async def settle(self) -> None:
        await self.runs.stop()
        await self.beginnings.tidying.settle()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.settle()
    await bench.backend.close()


async def test_a_turn_ends_in_its_record(bench: Bench) -> None:
    begun = await bench.begin()
    log = await bench.play(begun)
    assert fold(log) == log[-1]["response"] == await bench.stored(begun)
    with pytest.raises(LogNotFound):
        await bench.logged(begun)


async def test_under_a_key_its_log_is_its_stream_and_its_job_is_done(bench: Bench) -> None:
    begun = await bench.begin(key="k")
    assert await bench.play(begun) == await bench.logged(begun)
    assert (await bench.store.describe_job(TENANT, begun.response_id)).state is JobState.SUCCEEDED


async def test_a_caller_that_leaves_during_the_commit_cannot_undo_it(bench: Bench) -> None:
    bench.slow.go.clear()
    begun = await bench.begin(session_id="s")
    caller = asyncio.create_task(bench.play(begun))
    await bench.slow.asked.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    bench.slow.go.set()
    await bench.settle()
    assert (await bench.stored(begun))["status"] == "completed"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


async def test_a_caller_that_leaves_before_stops_the_model_and_is_recorded(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    begun = await bench.begin(session_id="s")
    async with aclosing(bench.runs.run(begun)) as batches:
        async for batch in batches:
            if b"output_text.delta" in batch.frames:
                break
    assert bench.sayer.stopped.is_set()
    await bench.settle()
    assert (await bench.stored(begun))["status"] == "cancelled"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


async def test_what_a_turn_took_is_charged_once(bench: Bench) -> None:
    log = await bench.play(await bench.begin())
    assert bench.charged == [(TENANT, log[-1]["response"]["usage"]["total_tokens"])]


async def test_what_was_said_to_a_caller_that_left_is_charged(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    async with aclosing(bench.runs.run(await bench.begin())) as batches:
        told_ids = [token async for batch in heard_to_its_text(batches) for token in batch.token_ids]
    await bench.settle()
    assert bench.charged == [(TENANT, len(told_ids))]
    assert told_ids


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
    begun = await bench.begin(key="k")
    async with aclosing(bench.runs.run(begun)) as batches:
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
        begun = await bench.begin(model="other", **options)
        with pytest.raises(ModelNotFound):
            await bench.play(begun)
        again = await bench.begin(**options)
        assert again.response_id != begun.response_id
        await bench.play(again)


async def test_a_turn_under_a_key_that_came_to_nothing_stands_beside_its_session(bench: Bench) -> None:
    await bench.play(await bench.begin(session_id="s"))
    before = await bench.store.describe_session(TENANT, "s")
    bench.sayer.pause_at, bench.sayer.fault = 0, EngineUnavailable("overloaded")
    begun = await bench.begin(key="k", session_id="s")
    log = await bench.play(begun)
    assert fold(log) == await bench.stored(begun)
    session = await bench.store.describe_session(TENANT, "s")
    assert (session.head_id, session.lease) == (before.head_id, None)
    assert (await bench.store.describe_job(TENANT, begun.response_id)).state is JobState.SUCCEEDED
    bench.sayer.pause_at = None
    again = await bench.begin(key="k", session_id="s")
    assert (await bench.play(again))[-1]["type"] == events.COMPLETED


async def test_one_whose_failure_cannot_be_stored_is_left_to_who_comes_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_patience, "AWAY_S", 0)
    bench.sayer.pause_at, bench.sayer.fault = 0, EngineUnavailable("overloaded")
    begun = await bench.begin(key="k")
    bench.backend.plan(Fault("commit_turn", When.BEFORE))
    await bench.play(begun)
    assert (await bench.store.describe_job(TENANT, begun.response_id)).state is JobState.QUEUED


async def test_what_cannot_be_given_back_does_not_hide_the_error(bench: Bench) -> None:
    begun = await bench.begin(model="other", session_id="s")
    bench.backend.plan(Fault("release_lease", When.BEFORE))
    with pytest.raises(ModelNotFound):
        await bench.play(begun)


async def refused(bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception) -> tuple[AcceptedTurn, list[Object]]:
    """A turn whose log cannot be written behind its first events."""

    async def refuse(*_: Any, **__: Any) -> int:
        raise error

    monkeypatch.setattr("antiphon_edge.turns.event_log_writer.PAUSES_S", ())
    monkeypatch.setattr(store_patience, "AWAY_S", 0)
    bench.sayer.pause_at = 5
    begun = await bench.begin(key="k")
    playing = asyncio.create_task(bench.play(begun))
    await bench.until_it_pauses()
    monkeypatch.setattr(bench.slow, "append_events", refuse, raising=False)
    bench.sayer.go.set()
    log = await playing
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    return begun, log


async def test_a_turn_is_more_than_its_log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, log = await refused(bench, monkeypatch, StoreUnavailable("full"))
    assert log[-1]["type"] == events.COMPLETED
    assert await bench.stored(begun) == log[-1]["response"]
    assert (await bench.store.describe_job(TENANT, begun.response_id)).state is JobState.SUCCEEDED


async def test_who_repeats_it_is_told_all_of_it_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, log = await refused(bench, monkeypatch, StoreUnavailable("full"))
    again = bench.repetitions.stream(lambda: bench.beginnings.begin(TENANT, request_of(), key="k"))
    async with asyncio.timeout(5):
        told = [event async for batch in again for event in events.decode(batch.frames)]
    assert fold(told) == log[-1]["response"] == await bench.stored(begun)


async def test_a_turn_that_somebody_else_runs_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = StaleFence.of("s", token=1)
    _, log = await refused(bench, monkeypatch, stale)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]


async def test_under_a_key_it_goes_on_without_its_caller(bench: Bench) -> None:
    bench.sayer.pause_at = 3
    begun = await bench.begin(key="k")
    async with aclosing(bench.runs.detached(begun)) as batches:
        await anext(batches)
    bench.sayer.go.set()
    while (await bench.store.describe_job(TENANT, begun.response_id)).state is JobState.RUNNING:
        await asyncio.sleep(0.001)
    assert (await bench.stored(begun))["status"] == "completed"


@pytest.mark.parametrize("slow", ["enqueue_job", "claim_job"])
async def test_a_caller_that_leaves_while_its_turn_is_taken_up_leaves_nothing(bench: Bench, slow: str) -> None:
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    begun = await bench.beginnings.begin(TENANT, request, key="k")
    assert isinstance(begun, AcceptedTurn)
    bench.backend.plan(Fault(slow, When.BEFORE, error=None, delay_s=0.05))
    caller = asyncio.create_task(bench.runs.hold(begun))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await bench.settle()
    assert not await bench.holdings.is_open(TENANT, begun.response_id)
    assert isinstance(await bench.beginnings.begin(TENANT, request, key="k"), AcceptedTurn)


async def test_a_caller_that_leaves_takes_nothing_from_whoever_was_faster(bench: Bench) -> None:
    begun = await bench.begin(key="k")
    bench.backend.plan(Fault("enqueue_job", When.BEFORE, error=None, delay_s=0.05))
    caller = asyncio.create_task(bench.runs.hold(begun))
    await asyncio.sleep(0.01)
    caller.cancel()
    await asyncio.wait([caller])
    await bench.settle()
    assert (await bench.store.describe_job(TENANT, begun.response_id)).cancel_requested is False
    assert (await bench.play(begun))[-1]["type"] == events.COMPLETED


async def test_what_is_wrong_with_it_is_its_callers_to_know(bench: Bench) -> None:
    with pytest.raises(ModelNotFound):
        await anext(bench.runs.detached(await bench.begin(key="k", model="other")))


async def taken_over(bench: Bench, begun: AcceptedTurn) -> tuple[AcceptedTurn, told.LogState]:
    """A turn whose edge fell silent, as another one finds it."""
    bench.clock.advance(LEASE_MS / 1000)
    taken = await bench.holdings.take_over(RepeatedRequest(TENANT, begun.response_id, None, "k"))
    assert taken is not None
    return taken, await told.read(bench.store, TENANT, begun.response_id)


@pytest.mark.parametrize("pause_at", range(0, 16, 3))
async def test_an_edge_that_stops_leaves_its_turns_to_others(bench: Bench, pause_at: int) -> None:
    bench.sayer.pause_at = pause_at
    begun = await bench.begin(key="k")
    async with aclosing(bench.runs.detached(begun)) as batches:
        await anext(batches)
        await bench.until_it_pauses()
        await bench.settle()
    assert bench.sayer.stopped.is_set()
    with pytest.raises(ResponseNotFound):
        await bench.stored(begun)
    taken, said = await taken_over(bench, begun)
    bench.sayer.pause_at = None
    await bench.play(taken, told=said)
    log = await bench.logged(begun)
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    other = await bench.play(await bench.begin())
    assert [event["type"] for event in log] == [event["type"] for event in other]
    assert fold(log) == await bench.stored(begun)


async def test_an_edge_that_only_slept_cannot_write_over_its_successor(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    begun = await bench.begin(key="k")
    sleeping = asyncio.create_task(bench.play(begun))
    await bench.until_it_pauses()
    taken, said = await taken_over(bench, begun)
    bench.sayer.pause_at = None
    successor = await bench.play(taken, told=said)
    bench.sayer.say("<think>", "Hm.", "</think>", "Something else.")
    bench.sayer.go.set()
    assert (await sleeping)[-1]["response"]["status"] == "failed"
    assert (await bench.stored(begun)) == successor[-1]["response"]
    assert successor[-1]["type"] == events.COMPLETED


@pytest.mark.parametrize("pause_at", [0, 9, 16])
async def test_a_lease_that_ran_out_ends_no_turn_that_nobody_took_over(bench: Bench, pause_at: int) -> None:
    """The store was away for longer than the lease: its clock went on, and no heartbeat reached it."""
    bench.sayer.pause_at = pause_at
    begun = await bench.begin(key="k")
    playing = asyncio.create_task(bench.play(begun))
    await asyncio.sleep(0.02)
    bench.clock.advance(LEASE_MS / 1000)
    bench.sayer.go.set()
    log = await playing
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert log == await bench.logged(begun)
    assert (log[-1]["type"], log[-1]["response"]) == (events.COMPLETED, await bench.stored(begun))
    assert len(bench.sayer.requests) == 1
    assert (await bench.store.describe_job(TENANT, begun.response_id)).state is JobState.SUCCEEDED


async def test_in_a_session_that_went_on_it_cannot_be_finished(bench: Bench) -> None:
    bench.sayer.pause_at = 9
    begun = await bench.begin(key="k", session_id="s")
    async with aclosing(bench.runs.detached(begun)) as batches:
        await anext(batches)
        await bench.until_it_pauses()
        await bench.settle()
    bench.clock.advance(31)
    bench.sayer.pause_at = None
    await bench.play(await bench.begin(session_id="s"))
    taken, said = await taken_over(bench, begun)
    (*_, last) = await bench.play(taken, told=said)
    assert (last["type"], (await bench.stored(begun))["status"]) == (events.FAILED, "failed")
    session = await bench.store.describe_session(TENANT, "s")
    assert session.lease is None
    assert session.head_id != begun.response_id


async def test_where_others_have_the_session_nothing_is_begun(bench: Bench) -> None:
    begun = await bench.begin(key="k", session_id="s")
    bench.clock.advance(31)
    await bench.begin(session_id="s")
    taken, said = await taken_over(bench, begun)
    with pytest.raises(SessionLocked):
        await bench.play(taken, told=said)


async def overtaken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> tuple[AcceptedTurn, list[Object]]:
    """A turn whose session is somebody else's from the middle of its answer on."""
    monkeypatch.setattr(leases, "RENEW_EVERY_S", 0.01)
    bench.sayer.pause_at = 9
    begun = await bench.begin(key=key, session_id="s")
    playing = asyncio.create_task(bench.play(begun))
    await bench.until_it_pauses()
    assert begun.fence is not None
    await bench.store.release_session(TENANT, begun.fence)
    await bench.store.acquire_session(TENANT, "s", holder="other")
    return begun, await playing


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_turn_whose_session_is_lost_stops_its_model_and_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    begun, log = await overtaken(bench, monkeypatch, key)
    assert bench.sayer.stopped.is_set()
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert (log[-2]["code"], log[-2]["param"]) == ("conversation_lost", "conversation")
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    with pytest.raises(ResponseNotFound):
        await bench.stored(begun)
    session = await bench.store.describe_session(TENANT, "s")
    assert session.lease is not None
    assert (session.head_id, session.lease.holder) == (None, "other")


async def test_its_key_is_free_and_its_readers_are_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, log = await overtaken(bench, monkeypatch, "k")
    assert await bench.logged(begun) == log
    assert (await bench.store.describe_job(TENANT, begun.response_id)).state is JobState.SUCCEEDED
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

    monkeypatch.setattr(leases, "RENEW_EVERY_S", 0)
    monkeypatch.setattr(bench.slow, "renew_session", renew_session, raising=False)
    bench.sayer.pause_at = 9
    begun = await bench.begin(key="k", session_id="s")
    sleeping = asyncio.create_task(bench.play(begun))
    await bench.until_it_pauses()
    bench.clock.advance(31)
    taken, said = await taken_over(bench, begun)
    bench.sayer.pause_at = 12
    successor = asyncio.create_task(bench.play(taken, told=said))
    while len(bench.sayer.requests) < 2:
        await asyncio.sleep(0.001)
    awake.set()
    assert (await sleeping)[-2]["code"] == "conversation_lost"
    with pytest.raises(IdempotencyMismatch):
        await bench.begin(key="k", session_id="s", input="something else")
    bench.sayer.go.set()
    assert (await successor)[-1]["type"] == events.COMPLETED
    assert (await bench.stored(begun))["status"] == "completed"
    assert (await bench.store.describe_session(TENANT, "s")).head_id == begun.response_id


@pytest.mark.parametrize(("key", "atom"), [(None, "commit_turn"), ("k", "commit_turn_once")])
async def test_a_session_whose_turn_cannot_be_stored_is_free_at_once(bench: Bench, key: str | None, atom: str) -> None:
    bench.backend.plan(Fault(atom, When.BEFORE, error=TooLarge))
    begun = await bench.begin(key=key, session_id="s")
    assert (await bench.play(begun))[-2]["code"] == "request_too_large"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_session_that_is_lost_at_the_very_end_is_told_as_such(bench: Bench, key: str | None) -> None:
    bench.slow.go.clear()
    begun = await bench.begin(key=key, session_id="s")
    playing = asyncio.create_task(bench.play(begun))
    await bench.slow.asked.wait()
    assert begun.fence is not None
    await bench.store.release_session(TENANT, begun.fence)
    bench.slow.go.set()
    assert (await playing)[-2]["code"] == "conversation_lost"
    assert (await bench.play(await bench.begin(key=key, session_id="s")))[-1]["type"] == events.COMPLETED


async def test_a_store_that_is_away_for_a_while_ends_no_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_EVERY_S", 0.01)
    monkeypatch.setattr(leases, "RETRY_EVERY_S", 0.01)
    bench.sayer.pause_at = 9
    begun = await bench.begin(session_id="s")
    bench.backend.plan(*[Fault("renew_lease", When.BEFORE)] * 3)
    playing = asyncio.create_task(bench.play(begun))
    while bench.backend._planned:
        await asyncio.sleep(0.005)
    bench.sayer.go.set()
    assert (await playing)[-1]["type"] == events.COMPLETED


async def test_what_came_as_text_cannot_be_gone_on_with() -> None:
    bench = Bench(ScriptedTranslator(hang=True))
    await bench.backend.open()
    begun = await bench.begin(key="k")
    async with aclosing(bench.runs.detached(begun)) as batches:
        await anext(batches)
        async with asyncio.timeout(30):
            while (await told.read(bench.store, TENANT, begun.response_id)).fold.next_sequence < 6:  # with its words
                await asyncio.sleep(0.001)
        await bench.settle()
    taken, said = await taken_over(bench, begun)
    (*_, last) = await bench.play(taken, told=said)
    assert last["response"]["error"]["message"].startswith("The response was interrupted")
    assert (await bench.store.get(TENANT, begun.response_id)).status is Status.FAILED
    await bench.settle()
    await bench.backend.close()


async def test_a_turn_that_could_not_be_held_is_forgotten(bench: Bench) -> None:
    bench.backend.plan(Fault("enqueue_job", When.BEFORE))
    with pytest.raises(StoreUnavailable):
        await bench.begin(key="k")
    await bench.settle()
    assert isinstance(await bench.begin(key="k"), AcceptedTurn)


async def test_one_that_others_took_up_at_once_is_theirs(bench: Bench) -> None:
    begun = replace(await bench.begin(key="k"), key="k")
    assert await bench.runs.hold(begun) is None
    request = CreateRequest.parse(b'{"model":"m","input":"hi"}')
    assert isinstance(await bench.beginnings.begin(TENANT, request, key="k"), RepeatedRequest)
