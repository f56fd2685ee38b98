from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

from antiphon_core import events
from antiphon_core.errors import (
    IdempotencyMismatch,
    InvalidRequest,
    ModelNotFound,
    ResponseNotFound,
    SessionLocked,
    StoreUnavailable,
)
from antiphon_core.fold import fold
from antiphon_core.ids import RandomIds, new_conversation_id, new_response_id
from antiphon_core.jsons import loads
from antiphon_core.ports.jobs import DISPATCH_QUEUE, DISPATCH_TENANT, JobDescription, JobOutcome, JobState
from antiphon_core.ports.store import Record, Status
from antiphon_core.telemetry import remedies
from antiphon_core.telemetry.log_fields import REMEDY
from antiphon_edge.background import background
from antiphon_edge.background.background_policy import JOB_ATTEMPTS
from antiphon_edge.turns.accepted_turn import RepeatedRequest
from antiphon_edge.turns.durable_turns import StaleKey
from antiphon_store.decisions.tenant_line import place_id
from antiphon_store.rows.model import Delete, Index, Kind, Ref, Unfile
from antiphon_store.service import StoreService
from antiphon_store.topics.trees import tree_of
from tests.support.background import (
    TENANT,
    TIMING,
    Bench,
    background_request,
    bench,
    hasten,
    text_of,
    whole,
    without_room_for_output,
)
from tests.support.waiting import WAIT_MAX_S, until

TALK = new_conversation_id(RandomIds())


@pytest.fixture
async def system(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    hasten(monkeypatch)
    async with bench() as made:
        yield made


async def job_state(system: Bench, response_id: str) -> JobState:
    state: JobState = (await system.store.describe_job(TENANT, response_id)).state
    return state


async def is_free(system: Bench, session_id: str) -> bool:
    return (await system.store.describe_session(TENANT, session_id)).lease is None


# ---- Created ----


async def test_background_response_is_queued_before_create_returns(system: Bench) -> None:
    record = await system.create(metadata={"a": "b"})
    told = whole(record)
    assert (told["status"], told["background"], told["metadata"], told["output"]) == ("queued", True, {"a": "b"}, [])
    assert whole(await system.store.get(TENANT, record.id)) == told
    assert await job_state(system, record.id) is JobState.QUEUED
    assert (await system.claimed(DISPATCH_TENANT)).id == record.id


async def test_invalid_background_request_is_rejected_at_once_and_leaves_no_job(system: Bench) -> None:
    request = background_request(model="other")
    for _ in range(2):
        with pytest.raises(ModelNotFound):
            await system.edge.create(TENANT, request, session_id=TALK, key="k")
    assert await is_free(system, TALK)
    assert await system.store.claim_job(TENANT, [DISPATCH_QUEUE], holder="test") is None
    assert (await system.create(key="k")).status is Status.QUEUED


@pytest.mark.parametrize("executes", [False, True])
async def test_background_response_that_cannot_be_queued_releases_its_session_and_key(
    system: Bench, executes: bool
) -> None:
    store = system.new_store()
    store.failing["commit_turn"], store.executes = 1, executes
    edge = system.edge_over(store)
    request = background_request()
    with pytest.raises(StoreUnavailable):
        await edge.create(TENANT, request, session_id=TALK, key="k")
    assert await is_free(system, TALK)
    again = await edge.create(TENANT, request, session_id=TALK, key="k")
    assert (await system.store.get(TENANT, again.id)).status is Status.QUEUED
    assert await job_state(system, again.id) is JobState.QUEUED


@pytest.mark.parametrize("call", ["cancel_job", "delete"])
async def test_failed_rollback_of_a_queued_response_is_logged_with_its_id(
    system: Bench, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    store = system.new_store()

    async def fail() -> None:
        raise StoreUnavailable("lost")

    store.failing["commit_turn"], store.executes = 1, True
    store.before[call] = fail
    with pytest.raises(StoreUnavailable):
        await system.edge_over(store).create(TENANT, background_request())
    (response_id,) = [args[1] for name, args in store.calls if name == "delete"]
    (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert f"response {response_id} could not be taken back" in line.getMessage()
    assert vars(line)[REMEDY] == remedies.CHECK_STORE[REMEDY]
    if call == "cancel_job":
        with pytest.raises(ResponseNotFound):
            await system.store.get(TENANT, response_id)
    else:
        assert await job_state(system, response_id) is JobState.CANCELLED


async def test_client_disconnect_during_create_still_queues_the_response(system: Bench) -> None:
    store = system.new_store()
    arrived, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        arrived.set()
        await may_go_on.wait()

    store.before["commit_turn"] = wait
    asking = asyncio.create_task(system.edge_over(store).create(TENANT, background_request()))
    await arrived.wait()
    asking.cancel()
    await asyncio.wait([asking])
    may_go_on.set()
    job = None
    async with asyncio.timeout(WAIT_MAX_S):
        while job is None:
            job = await system.store.claim_job(TENANT, [DISPATCH_QUEUE], holder="test")
            await asyncio.sleep(0)
    await system.run_of(job).go()
    assert (await system.edge.current(TENANT, job.id)).status is Status.COMPLETED


async def test_response_whose_parent_is_deleted_before_it_is_queued_becomes_a_root(system: Bench) -> None:
    first = await system.create(input="One.")
    await system.run_next()
    store = system.new_store()

    async def delete() -> None:
        del store.before["commit_turn"]
        await system.store.delete(TENANT, first.id)

    store.before["commit_turn"] = delete
    request = background_request(input="Two.", previous_response_id=first.id)
    record = await system.edge_over(store).create(TENANT, request, key="k")
    assert record.parent_id is None
    said = [item["content"][0]["text"] for item in loads(record.input_items)]
    assert (said[0], said[2:]) == ("One.", ["Two."])
    await system.run_next()
    ended = await system.edge.create(TENANT, request, key="k")
    assert (ended.id, ended.status, ended.input_items) == (record.id, Status.COMPLETED, record.input_items)


# ---- Keyed turns ----


async def test_concurrent_requests_with_one_key_queue_one_response(system: Bench) -> None:
    replicas = [system.replica() for _ in range(4)]
    request = background_request()
    records = await asyncio.gather(*(replicas[n % 4].create(TENANT, request, key="k") for n in range(32)))
    assert len({record.id for record in records}) == 1
    await system.run_next()
    assert await system.store.claim_job(TENANT, [DISPATCH_QUEUE], holder="test") is None
    again = await system.edge.create(TENANT, request, key="k")
    assert (again.id, again.status) == (records[0].id, Status.COMPLETED)
    with pytest.raises(IdempotencyMismatch):
        await system.edge.create(TENANT, background_request(input="other"), key="k")


async def test_retries_of_a_keyed_request_whose_edge_died_queue_one_response(
    system: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = SimpleNamespace(stale_after_s=0.2)

    class Watched(StaleKey):
        async def release_if_stale(self, repeated: RepeatedRequest) -> None:
            self._stale_after_s = limit.stale_after_s
            await super().release_if_stale(repeated)

    async def take_long() -> None:
        """Lets no further key become stale: the next turn keeps its key."""
        limit.stale_after_s = WAIT_MAX_S

    monkeypatch.setattr(background, "StaleKey", Watched)
    request = background_request()
    await system.parts(system.edge._store).starter.begin(TENANT, request, key="k")
    stores = [system.new_store() for _ in range(8)]
    for store in stores:
        store.before["abort_turn"] = take_long
    records = await asyncio.gather(*(system.edge_over(store).create(TENANT, request, key="k") for store in stores))
    assert len({record.id for record in records}) == 1
    assert await job_state(system, records[0].id) is JobState.QUEUED


async def test_slow_edge_queues_nothing_after_its_stale_key_was_released(system: Bench) -> None:
    system.timing = replace(TIMING, stale_key_s=0.02)
    system.edge = system.replica()
    request, store, may_go_on = background_request(), system.new_store(), asyncio.Event()
    store.before["commit_turn"] = may_go_on.wait  # type: ignore[assignment]
    slow = asyncio.create_task(system.edge_over(store).create(TENANT, request, key="k"))
    await system.until(lambda: any(name == "commit_turn" for name, _ in store.calls))
    await system.create(key="k")
    may_go_on.set()
    with pytest.raises(IdempotencyMismatch):
        await slow
    await system.run_next()
    assert await system.store.claim_job(TENANT, [DISPATCH_QUEUE], holder="test") is None


async def test_concurrent_requests_with_one_key_for_an_unknown_model_are_all_rejected(system: Bench) -> None:
    request = background_request(model="other")
    asked = [system.replica().create(TENANT, request, key="k") for _ in range(8)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [ModelNotFound] * 8


# ---- Cancelled ----


async def test_queued_response_is_cancelled_at_once(system: Bench) -> None:
    record = await system.edge.create(TENANT, background_request(), session_id=TALK)
    ended = await system.replica().cancel(TENANT, record.id)
    log = await system.log(record.id)
    assert [event["type"] for event in log] == [events.CREATED, events.QUEUED, events.CANCELLED]
    assert fold(log) == whole(ended) == whole(await system.store.get(TENANT, record.id))
    assert (whole(ended)["status"], whole(ended)["output"]) == ("cancelled", [])
    assert await is_free(system, TALK)
    assert await system.store.claim_job(TENANT, [DISPATCH_QUEUE], holder="test") is None


async def test_cancellation_of_an_ended_response_returns_it_unchanged(system: Bench) -> None:
    cancelled = await system.create()
    first = await system.edge.cancel(TENANT, cancelled.id)
    assert await system.edge.cancel(TENANT, cancelled.id) == first
    completed = await system.create()
    await system.run_next()
    late = await system.edge.cancel(TENANT, completed.id)
    assert late == await system.store.get(TENANT, completed.id)
    assert late.status is Status.COMPLETED


async def test_cancellation_of_a_synchronous_or_unknown_response_is_rejected(system: Bench) -> None:
    record = Record(new_response_id(RandomIds()), Status.COMPLETED, b'{"background":false}')
    await system.store.put(TENANT, record)
    with pytest.raises(InvalidRequest, match="Cannot cancel a synchronous response"):
        await system.edge.cancel(TENANT, record.id)
    with pytest.raises(ResponseNotFound):
        await system.edge.cancel(TENANT, new_response_id(RandomIds()))
    with pytest.raises(ResponseNotFound):
        await system.edge.cancel("other", (await system.create()).id)


async def test_cancellation_times_out_and_stays_requested_when_the_worker_is_silent(system: Bench) -> None:
    system.timing = replace(TIMING, cancel_timeout_s=0.05)
    system.edge = system.replica()
    record = await system.create()
    job = await system.claimed()
    assert (await system.edge.cancel(TENANT, record.id)).status is Status.QUEUED
    pulse = await system.store.heartbeat_job(TENANT, job.fence)
    assert pulse.cancel_requested


async def test_cancellation_during_create_cancels_the_response(system: Bench) -> None:
    store = system.new_store()
    may_go_on = asyncio.Event()
    store.after["commit_turn"] = may_go_on.wait
    creating = asyncio.create_task(system.edge_over(store).create(TENANT, background_request()))
    await until(lambda: bool(system.backend.stored()), "the record")
    ((_, response_id),) = system.backend.stored()
    cancelling = asyncio.create_task(system.edge.cancel(TENANT, response_id))
    await asyncio.sleep(0.02)
    assert not creating.done()
    may_go_on.set()
    await creating
    assert (await cancelling).status is Status.CANCELLED


# ---- Responses without a job or a log ----


async def test_response_whose_job_used_up_its_attempts_is_failed(system: Bench) -> None:
    record = await system.edge.create(TENANT, background_request(), session_id=TALK)
    for _ in range(JOB_ATTEMPTS):
        job = await system.claimed()
        await system.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    answers = await asyncio.gather(*(system.replica().current(TENANT, record.id) for _ in range(5)))
    log = await system.log(record.id)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert [whole(answer) for answer in answers] == [fold(log)] * 5
    assert "attempts exhausted" in fold(log)["error"]["message"]
    assert await is_free(system, TALK)


async def test_response_whose_job_is_lost_fails(system: Bench) -> None:
    record = await system.create()
    await system.backend.lose(TENANT, Kind.JOB, record.id)
    ended = whole(await system.edge.current(TENANT, record.id))
    assert (ended["status"], fold(await system.log(record.id))) == ("failed", ended)
    assert "no longer exists" in ended["error"]["message"]


async def test_response_whose_job_and_event_log_are_lost_fails_with_a_new_log(system: Bench) -> None:
    record = await system.create()
    await system.backend.lose(TENANT, Kind.JOB, record.id)
    await system.backend.lose(TENANT, Kind.LOG, record.id)
    ended = whole(await system.edge.current(TENANT, record.id))
    assert ended["status"] == "failed"
    assert fold(await system.log(record.id)) == ended


async def test_read_of_a_response_puts_its_missing_tenant_back_into_the_dispatch_queue(system: Bench) -> None:
    record = await system.create()
    places = [Unfile(Index.QUEUE, DISPATCH_QUEUE, place_id(TENANT, 0)), Delete(Ref(Kind.LINE, TENANT))]
    await system.backend.change(*tree_of(DISPATCH_TENANT, TENANT), *places)
    assert await system.store.claim_job(DISPATCH_TENANT, [DISPATCH_QUEUE], holder="test") is None
    assert (await system.edge.current(TENANT, record.id)).status is Status.QUEUED
    assert (await system.claimed(DISPATCH_TENANT)).id == record.id


async def test_background_response_is_created_by_begin_turn_and_commit_turn_alone(system: Bench) -> None:
    store = system.new_store()
    await system.edge_over(store).create(TENANT, background_request(), session_id=TALK)
    assert [name for name, _ in store.calls if name != "ready"] == ["begin_turn", "commit_turn"]


async def test_in_progress_record_that_is_not_in_background_is_left_unchanged(system: Bench) -> None:
    record = Record(new_response_id(RandomIds()), Status.IN_PROGRESS, b"{}")
    await system.store.put(TENANT, record)
    assert (await system.edge.current(TENANT, record.id)).status is Status.IN_PROGRESS


# ---- Followed ----


async def test_every_replica_resumes_a_log_after_any_event_with_the_same_bytes(system: Bench) -> None:
    record = await system.create()
    following = asyncio.create_task(system.frames(record.id))
    await system.run_next()
    everything = await following
    frames = [frame + b"\n\n" for frame in everything.split(b"\n\n")[:-1]]
    for after in range(len(frames)):
        assert await system.frames(record.id, after=after) == b"".join(frames[after + 1 :])


async def test_following_a_response_whose_job_used_up_its_attempts_ends_with_failed(system: Bench) -> None:
    record = await system.create()
    following = asyncio.create_task(system.frames(record.id))
    await asyncio.sleep(0.02)
    for _ in range(JOB_ATTEMPTS):
        job = await system.claimed()
        await system.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    assert events.decode(await following)[-1]["type"] == events.FAILED


async def test_lost_event_log_is_replayed_from_the_record_and_cannot_be_resumed(system: Bench) -> None:
    record = await system.create()
    await system.run_next()
    await system.backend.lose(TENANT, Kind.LOG, record.id)
    log = await system.log(record.id)
    assert fold(log) == whole(await system.edge.current(TENANT, record.id))
    assert text_of(log[-1]["response"]) == system.engine.text
    for after in (0, len(log) - 1, 99):
        with pytest.raises(InvalidRequest, match="Without 'starting_after'") as refused:
            await system.frames(record.id, after=after)
        assert (refused.value.field, refused.value.code) == ("starting_after", "unsupported_parameter")


async def follow(system: Bench, record: Record) -> tuple[asyncio.Task[None], bytearray]:
    """Follows a response, and returns the task and what it has heard after the first batch."""
    heard = bytearray()

    async def read() -> None:
        async for batch in system.replica().stream(TENANT, record):
            heard.extend(batch.frames)

    following = asyncio.create_task(read())
    await system.until(lambda: bool(heard))
    return following, heard


async def test_stream_whose_event_log_is_lost_in_the_middle_ends_with_the_end_of_the_record(system: Bench) -> None:
    record = await system.create()
    following, heard = await follow(system, record)
    job = await system.claimed()
    await system.backend.lose(TENANT, Kind.LOG, record.id)
    await system.store.settle_job(TENANT, job.fence, JobOutcome.FAILED)
    async with asyncio.timeout(WAIT_MAX_S):
        await following
    log = events.decode(bytes(heard))
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert log[-1]["response"] == whole(await system.edge.current(TENANT, record.id))


# ---- Deleted ----


async def test_deletion_of_a_running_response_stops_it_and_ends_its_streams(system: Bench) -> None:
    record = await system.create()
    system.engine.holds_at = 3
    async with system.worker():
        following = asyncio.create_task(system.frames(record.id))
        await system.until(lambda: len(system.engine.told) == 3)
        await system.replica().delete(TENANT, record.id)
        await system.until(lambda: system.engine.running == 0)
        assert events.decode(await following)[-1]["type"] == events.CANCELLED
    with pytest.raises(ResponseNotFound):
        await system.edge.current(TENANT, record.id)


async def test_stream_of_a_deleted_response_goes_on_until_its_worker_ends_the_log(system: Bench) -> None:
    record = await system.create()
    following, heard = await follow(system, record)
    looks, describe_job = 0, StoreService.describe_job

    async def counted(store: StoreService, tenant: str, job_id: str) -> JobDescription:
        nonlocal looks
        looks += 1
        return await describe_job(store, tenant, job_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreService, "describe_job", counted)
        job = await system.claimed()
        await system.store.delete(TENANT, record.id)
        await system.until(lambda: looks > 3)
    await system.run_of(job).go()
    async with asyncio.timeout(WAIT_MAX_S):
        await following
    assert events.decode(bytes(heard))[-1]["type"] == events.CANCELLED


async def test_deletion_of_an_ended_response_succeeds_only_once(system: Bench) -> None:
    record = await system.create()
    await system.run_next()
    await system.edge.delete(TENANT, record.id)
    with pytest.raises(ResponseNotFound):
        await system.edge.delete(TENANT, record.id)


async def test_a_conversation_is_locked_while_a_response_waits_in_it(system: Bench) -> None:
    await system.edge.create(TENANT, background_request(), session_id=TALK)
    system.clock.advance(120)
    with pytest.raises(SessionLocked):
        await system.replica().create(TENANT, background_request(), session_id=TALK)


async def test_the_log_does_not_quote_a_request_that_is_rejected(
    system: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(ModelNotFound, match="canary"):
        await system.edge.create(TENANT, background_request(model="canary"))
    assert "was not accepted: ModelNotFound model_not_found" in caplog.text
    assert "canary" not in caplog.text


async def test_a_response_whose_output_the_store_rejects_can_be_ended_and_read(system: Bench) -> None:
    record = await system.create()
    job = await system.claimed()
    system.engine.holds_at = 3
    running = asyncio.create_task(system.run_of(job).go())
    await system.logged(record.id, ids=3)
    running.cancel()
    await asyncio.wait([running])
    await system.store.settle_job(TENANT, job.fence, JobOutcome.FAILED)
    ended = whole(await system.edge_over(without_room_for_output(system)).current(TENANT, record.id))
    assert (ended["status"], ended["output"]) == ("failed", [])
    assert fold(await system.log(record.id)) == ended
