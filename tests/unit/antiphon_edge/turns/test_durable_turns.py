from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from antiphon_core import events
from antiphon_core.errors import IdempotencyMismatch, ModelNotFound, ResponseNotFound, SessionLocked, StoreUnavailable
from antiphon_core.fold import fold
from antiphon_core.jsons import dumps
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.store import Fence, Lease, Status
from antiphon_core.request.body import CreateRequest
from antiphon_edge.turns import event_logs
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.durable_turns import STEPS, Step, next_step
from antiphon_edge.turns.leases import RenewalPace
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS
from antiphon_edge.turns.turn_watch import Delivery
from antiphon_store.testing.faulty import Fault, When
from tests.support.translators import ScriptedTranslator
from tests.support.turn_bench import TENANT, TIMING, Bench
from tests.support.waiting import until


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.settle()
    await bench.backend.close()


async def taken_over(bench: Bench, accepted: AcceptedTurn) -> AcceptedTurn:
    """Takes over a turn whose edge fell silent."""
    bench.clock.advance(JOB_LEASE_MS / 1000)
    taken = await bench.jobs.take_over(RepeatedRequest(TENANT, accepted.response_id, None, "k", accepted.fingerprint))
    assert taken is not None
    return taken


async def test_keyed_turn_continues_without_its_client(bench: Bench) -> None:
    bench.engine.pause_at = 3
    accepted = await bench.begin(key="k")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
    bench.engine.go.set()
    while (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.RUNNING:
        await asyncio.sleep(0.001)
    assert (await bench.stored(accepted))["status"] == "completed"


async def test_client_disconnect_while_the_job_is_taken_leaves_no_job_and_no_key(bench: Bench) -> None:
    request = CreateRequest.parse(dumps({"model": "m", "input": "hi"}))
    accepted = await bench.starter.begin(TENANT, request, key="k")
    assert isinstance(accepted, AcceptedTurn)
    bench.backend.plan(Fault("enqueue_job", When.BEFORE, error=None, delay_s=0.05))
    caller = asyncio.create_task(bench.keyed_turns.enqueue(accepted))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await bench.settle()
    assert not await bench.jobs.is_open(TENANT, accepted.response_id)
    assert isinstance(await bench.starter.begin(TENANT, request, key="k"), AcceptedTurn)


async def test_client_disconnect_does_not_cancel_a_turn_that_was_taken_over(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    taken = await taken_over(bench, accepted)
    bench.backend.plan(Fault("enqueue_job", When.BEFORE, error=None, delay_s=0.05))
    caller = asyncio.create_task(bench.keyed_turns.enqueue(accepted))
    await asyncio.sleep(0.01)
    caller.cancel()
    await asyncio.wait([caller])
    await bench.settle()
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).cancel_requested is False
    assert (await bench.play(taken))[-1]["type"] == events.COMPLETED


async def test_error_before_the_first_event_is_raised_to_the_client(bench: Bench) -> None:
    with pytest.raises(ModelNotFound):
        await anext(bench.detached(await bench.begin(key="k", model="other")))


@pytest.mark.parametrize("pause_at", range(0, 16, 3))
async def test_turn_of_a_stopped_edge_is_finished_after_a_takeover(bench: Bench, pause_at: int) -> None:
    bench.engine.pause_at = pause_at
    accepted = await bench.begin(key="k")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
        await bench.until_it_pauses()
        await bench.settle()
    assert bench.engine.stopped.is_set()
    with pytest.raises(ResponseNotFound):
        await bench.stored(accepted)
    taken = await taken_over(bench, accepted)
    bench.engine.pause_at = None
    await bench.play(taken)
    log = await bench.logged(accepted)
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    other = await bench.play(await bench.begin())
    assert [event["type"] for event in log] == [event["type"] for event in other]
    assert fold(log) == await bench.stored(accepted)


async def test_edge_that_wakes_after_a_takeover_cannot_change_the_record(bench: Bench) -> None:
    bench.engine.pause_at = 9
    accepted = await bench.begin(key="k")
    sleeping = asyncio.create_task(bench.play(accepted))
    await bench.until_it_pauses()
    taken = await taken_over(bench, accepted)
    bench.engine.pause_at = None
    successor = await bench.play(taken)
    bench.engine.set_output("<think>", "Hm.", "</think>", "Something else.")
    bench.engine.go.set()
    assert (await sleeping)[-1]["response"]["status"] == "failed"
    assert (await bench.stored(accepted)) == successor[-1]["response"]
    assert successor[-1]["type"] == events.COMPLETED


async def test_takeover_in_a_session_that_advanced_fails_the_turn(bench: Bench) -> None:
    bench.engine.pause_at = 9
    accepted = await bench.begin(key="k", session_id="s")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
        await bench.until_it_pauses()
        await bench.settle()
    bench.clock.advance(31)
    bench.engine.pause_at = None
    await bench.play(await bench.begin(session_id="s"))
    taken = await taken_over(bench, accepted)
    (*_, last) = await bench.play(taken)
    assert (last["type"], (await bench.stored(accepted))["status"]) == (events.FAILED, "failed")
    session = await bench.store.describe_session(TENANT, "s")
    assert session.lease is None
    assert session.head_id != accepted.response_id


async def test_takeover_in_a_session_that_another_turn_holds_raises_session_locked(bench: Bench) -> None:
    accepted = await bench.begin(key="k", session_id="s")
    bench.clock.advance(31)
    await bench.begin(session_id="s")
    taken = await taken_over(bench, accepted)
    with pytest.raises(SessionLocked):
        await bench.play(taken)


async def test_edge_that_lost_its_leases_does_not_release_those_of_its_successor(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edge that slept for longer than its leases wakes up while its successor runs the turn."""
    awake = asyncio.Event()

    async def renew_session(tenant: str, fence: Fence) -> Lease:
        await awake.wait()
        return await bench.store.renew_session(tenant, fence)

    bench.use(replace(TIMING, session_pace=RenewalPace(every_s=0, retry_s=0)))
    monkeypatch.setattr(bench.slow, "renew_session", renew_session, raising=False)
    bench.engine.pause_at = 9
    accepted = await bench.begin(key="k", session_id="s")
    sleeping = asyncio.create_task(bench.play(accepted))
    await bench.until_it_pauses()
    bench.clock.advance(31)
    taken = await taken_over(bench, accepted)
    bench.engine.pause_at = 12
    successor = asyncio.create_task(bench.play(taken))
    await until(lambda: len(bench.engine.requests) >= 2, "the second generation")
    awake.set()
    assert (await sleeping)[-2]["code"] == "conversation_lost"
    with pytest.raises(IdempotencyMismatch):
        await bench.begin(key="k", session_id="s", input="something else")
    bench.engine.go.set()
    assert (await successor)[-1]["type"] == events.COMPLETED
    assert (await bench.stored(accepted))["status"] == "completed"
    assert (await bench.store.describe_session(TENANT, "s")).head_id == accepted.response_id


async def test_takeover_of_a_partial_text_without_token_ids_fails_the_turn() -> None:
    bench = Bench(ScriptedTranslator(hang=True))
    await bench.backend.open()
    accepted = await bench.begin(key="k")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
        async with asyncio.timeout(30):
            while (
                await event_logs.read_state(bench.store, TENANT, accepted.response_id)
            ).fold.next_sequence < 6:  # the text has begun
                await asyncio.sleep(0.001)
        await bench.settle()
    taken = await taken_over(bench, accepted)
    (*_, last) = await bench.play(taken)
    assert last["response"]["error"]["message"].startswith("The response was interrupted")
    assert (await bench.store.get(TENANT, accepted.response_id)).status is Status.FAILED
    await bench.settle()
    await bench.backend.close()


async def test_hold_of_a_turn_that_was_taken_over_returns_none_and_keeps_its_key(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    await taken_over(bench, accepted)
    assert await bench.keyed_turns.enqueue(accepted) is None
    request = CreateRequest.parse(b'{"model":"m","input":"hi"}')
    assert isinstance(await bench.starter.begin(TENANT, request, key="k"), RepeatedRequest)


async def test_store_outage_at_a_takeover_leaves_the_turn_open(bench: Bench) -> None:
    bench.engine.pause_at = 9
    accepted = await bench.begin(key="k", session_id="s")
    async with aclosing(bench.detached(accepted)) as batches:
        await anext(batches)
        await bench.until_it_pauses()
        await bench.settle()
    taken = await taken_over(bench, accepted)
    bench.backend.plan(Fault("begin_turn", When.BEFORE))
    with pytest.raises(StoreUnavailable):
        await bench.play(taken)
    with pytest.raises(ResponseNotFound):
        await bench.stored(accepted)
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.QUEUED
    bench.engine.pause_at = None
    taken = await taken_over(bench, accepted)
    await bench.play(taken)
    assert (await bench.stored(accepted))["status"] == "completed"


@pytest.mark.parametrize("delivery", STEPS)
def test_every_state_of_a_job_has_a_next_step(delivery: Delivery) -> None:
    assert set(STEPS[delivery]) == {*JobState, None}


def test_only_requests_take_keyed_turns_over_and_only_readers_end_background_responses() -> None:
    steps = {delivery: set(STEPS[delivery].values()) for delivery in STEPS}
    assert steps[Delivery.KEYED] == {Step.TAKE_OVER, Step.WAIT, Step.READ_END}
    assert steps[Delivery.BACKGROUND] == {Step.WAIT, Step.READ_END, Step.END_AS_FAILED, Step.END_AS_CANCELLED}


async def test_next_step_of_a_turn_does_not_follow_from_a_job_of_another_kind(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    step, job = await next_step(bench.store, Delivery.KEYED, TENANT, accepted.response_id)
    assert step is Step.WAIT
    assert job is not None
    other = await next_step(bench.store, Delivery.BACKGROUND, TENANT, accepted.response_id)
    assert other == (Step.END_AS_FAILED, None)
