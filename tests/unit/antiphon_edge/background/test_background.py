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
from antiphon_core.ports.jobs import JobOutcome, JobState
from antiphon_core.ports.store import Record, Status
from antiphon_core.telemetry import remedies
from antiphon_core.telemetry.log_fields import REMEDY
from antiphon_edge.background import background, queueing
from antiphon_edge.turns.accepted_turn import RepeatedRequest
from antiphon_edge.turns.stale_keys import StaleKey
from antiphon_store.decisions.tenant_line import place_id
from antiphon_store.rows.model import Delete, Index, Kind, Ref, Unfile
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
from tests.support.waiting import WAIT_MAX_S

TALK = new_conversation_id(RandomIds())


@pytest.fixture
async def shop(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    hasten(monkeypatch)
    async with bench() as made:
        yield made


async def job_state(shop: Bench, response_id: str) -> JobState:
    state: JobState = (await shop.store.describe_job(TENANT, response_id)).state
    return state


async def is_free(shop: Bench, session_id: str) -> bool:
    return (await shop.store.describe_session(TENANT, session_id)).lease is None


# ---- Created ----


async def test_it_is_queued_before_its_caller_hears_of_it(shop: Bench) -> None:
    record = await shop.create(metadata={"a": "b"})
    told = whole(record)
    assert (told["status"], told["background"], told["metadata"], told["output"]) == ("queued", True, {"a": "b"}, [])
    assert whole(await shop.store.get(TENANT, record.id)) == told
    assert await job_state(shop, record.id) is JobState.QUEUED
    assert (await shop.claimed(queueing.DISPATCH_TENANT)).id == record.id


async def test_what_is_wrong_with_a_request_is_told_at_once_and_leaves_nothing(shop: Bench) -> None:
    request = background_request(model="other")
    for _ in range(2):
        with pytest.raises(ModelNotFound):
            await shop.edge.create(TENANT, request, session_id=TALK, key="k")
    assert await is_free(shop, TALK)
    assert await shop.store.claim_job(TENANT, [queueing.QUEUE], holder="test") is None
    assert (await shop.create(key="k")).status is Status.QUEUED


@pytest.mark.parametrize("executes", [False, True])
async def test_what_could_not_be_queued_is_taken_back(shop: Bench, executes: bool) -> None:
    store = shop.new_store()
    store.failing["commit_turn"], store.executes = 1, executes
    edge = shop.edge_over(store)
    request = background_request()
    with pytest.raises(StoreUnavailable):
        await edge.create(TENANT, request, session_id=TALK, key="k")
    assert await is_free(shop, TALK)
    again = await edge.create(TENANT, request, session_id=TALK, key="k")
    assert (await shop.store.get(TENANT, again.id)).status is Status.QUEUED
    assert await job_state(shop, again.id) is JobState.QUEUED


@pytest.mark.parametrize("call", ["cancel_job", "delete"])
async def test_a_queued_response_that_cannot_be_taken_back_is_logged_with_its_id(
    shop: Bench, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    store = shop.new_store()

    async def fail() -> None:
        raise StoreUnavailable("lost")

    store.failing["commit_turn"], store.executes = 1, True
    store.before[call] = fail
    with pytest.raises(StoreUnavailable):
        await shop.edge_over(store).create(TENANT, background_request())
    (response_id,) = [args[1] for name, args in store.calls if name == "delete"]
    (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert f"response {response_id} could not be taken back" in line.getMessage()
    assert vars(line)[REMEDY] == remedies.CHECK_STORE[REMEDY]
    if call == "cancel_job":
        with pytest.raises(ResponseNotFound):
            await shop.store.get(TENANT, response_id)
    else:
        assert await job_state(shop, response_id) is JobState.CANCELLED


async def test_a_caller_that_goes_away_loses_nothing(shop: Bench) -> None:
    store = shop.new_store()
    arrived, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        arrived.set()
        await may_go_on.wait()

    store.before["commit_turn"] = wait
    asking = asyncio.create_task(shop.edge_over(store).create(TENANT, background_request()))
    await arrived.wait()
    asking.cancel()
    await asyncio.wait([asking])
    may_go_on.set()
    job = None
    async with asyncio.timeout(WAIT_MAX_S):
        while job is None:
            job = await shop.store.claim_job(TENANT, [queueing.QUEUE], holder="test")
            await asyncio.sleep(0)
    await shop.run_of(job).go()
    assert (await shop.edge.current(TENANT, job.id)).status is Status.COMPLETED


async def test_what_it_continues_may_be_deleted_before_it_is_queued(shop: Bench) -> None:
    first = await shop.create(input="One.")
    await shop.run_next()
    store = shop.new_store()

    async def delete() -> None:
        del store.before["commit_turn"]
        await shop.store.delete(TENANT, first.id)

    store.before["commit_turn"] = delete
    request = background_request(input="Two.", previous_response_id=first.id)
    record = await shop.edge_over(store).create(TENANT, request, key="k")
    assert record.parent_id is None
    said = [item["content"][0]["text"] for item in loads(record.input_items)]
    assert (said[0], said[2:]) == ("One.", ["Two."])
    await shop.run_next()
    ended = await shop.edge.create(TENANT, request, key="k")
    assert (ended.id, ended.status, ended.input_items) == (record.id, Status.COMPLETED, record.input_items)


# ---- Under a key ----


async def test_one_key_is_one_response_however_many_ask_at_once(shop: Bench) -> None:
    replicas = [shop.replica() for _ in range(4)]
    request = background_request()
    records = await asyncio.gather(*(replicas[n % 4].create(TENANT, request, key="k") for n in range(32)))
    assert len({record.id for record in records}) == 1
    await shop.run_next()
    assert await shop.store.claim_job(TENANT, [queueing.QUEUE], holder="test") is None
    again = await shop.edge.create(TENANT, request, key="k")
    assert (again.id, again.status) == (records[0].id, Status.COMPLETED)
    with pytest.raises(IdempotencyMismatch):
        await shop.edge.create(TENANT, background_request(input="other"), key="k")


async def test_who_repeats_what_a_dead_edge_began_is_accepted_in_its_place(
    shop: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = SimpleNamespace(stale_after_s=0.2)

    class Watched(StaleKey):
        async def release_if_stale(self, repeated: RepeatedRequest) -> None:
            self._stale_after_s = limit.stale_after_s
            await super().release_if_stale(repeated)

    async def take_long() -> None:
        """With whoever takes its place: that one lives."""
        limit.stale_after_s = WAIT_MAX_S

    monkeypatch.setattr(background, "StaleKey", Watched)
    request = background_request()
    await shop.starter(shop.edge._store).begin(TENANT, request, key="k")
    stores = [shop.new_store() for _ in range(8)]
    for store in stores:
        store.before["abort_turn"] = take_long
    records = await asyncio.gather(*(shop.edge_over(store).create(TENANT, request, key="k") for store in stores))
    assert len({record.id for record in records}) == 1
    assert await job_state(shop, records[0].id) is JobState.QUEUED


async def test_an_edge_that_was_only_slow_queues_nothing_beside_that(shop: Bench) -> None:
    shop.timing = replace(TIMING, stale_key_s=0.02)
    shop.edge = shop.replica()
    request, store, may_go_on = background_request(), shop.new_store(), asyncio.Event()
    store.before["commit_turn"] = may_go_on.wait  # type: ignore[assignment]
    slow = asyncio.create_task(shop.edge_over(store).create(TENANT, request, key="k"))
    await shop.until(lambda: any(name == "commit_turn" for name, _ in store.calls))
    await shop.create(key="k")
    may_go_on.set()
    with pytest.raises(IdempotencyMismatch):
        await slow
    await shop.run_next()
    assert await shop.store.claim_job(TENANT, [queueing.QUEUE], holder="test") is None


async def test_who_repeats_what_was_refused_is_refused_too(shop: Bench) -> None:
    request = background_request(model="other")
    asked = [shop.replica().create(TENANT, request, key="k") for _ in range(8)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [ModelNotFound] * 8


# ---- Cancelled ----


async def test_a_queued_one_is_cancelled_at_once(shop: Bench) -> None:
    record = await shop.edge.create(TENANT, background_request(), session_id=TALK)
    ended = await shop.replica().cancel(TENANT, record.id)
    log = await shop.log(record.id)
    assert [event["type"] for event in log] == [events.CREATED, events.QUEUED, events.CANCELLED]
    assert fold(log) == whole(ended) == whole(await shop.store.get(TENANT, record.id))
    assert (whole(ended)["status"], whole(ended)["output"]) == ("cancelled", [])
    assert await is_free(shop, TALK)
    assert await shop.store.claim_job(TENANT, [queueing.QUEUE], holder="test") is None


async def test_cancelling_again_or_too_late_answers_with_the_end(shop: Bench) -> None:
    cancelled = await shop.create()
    first = await shop.edge.cancel(TENANT, cancelled.id)
    assert await shop.edge.cancel(TENANT, cancelled.id) == first
    completed = await shop.create()
    await shop.run_next()
    late = await shop.edge.cancel(TENANT, completed.id)
    assert late == await shop.store.get(TENANT, completed.id)
    assert late.status is Status.COMPLETED


async def test_what_is_not_in_the_background_cannot_be_cancelled(shop: Bench) -> None:
    record = Record(new_response_id(RandomIds()), Status.COMPLETED, b'{"background":false}')
    await shop.store.put(TENANT, record)
    with pytest.raises(InvalidRequest, match="Cannot cancel a synchronous response"):
        await shop.edge.cancel(TENANT, record.id)
    with pytest.raises(ResponseNotFound):
        await shop.edge.cancel(TENANT, new_response_id(RandomIds()))
    with pytest.raises(ResponseNotFound):
        await shop.edge.cancel("other", (await shop.create()).id)


async def test_who_cancels_waits_for_the_worker_but_not_for_ever(shop: Bench) -> None:
    shop.timing = replace(TIMING, cancel_timeout_s=0.05)
    shop.edge = shop.replica()
    record = await shop.create()
    job = await shop.claimed()
    assert (await shop.edge.cancel(TENANT, record.id)).status is Status.QUEUED
    pulse = await shop.store.heartbeat_job(TENANT, job.fence)
    assert pulse.cancel_requested


async def test_cancelling_finds_the_job_that_comes_after_its_response(shop: Bench) -> None:
    store = shop.new_store()
    may_go_on = asyncio.Event()
    store.before["enqueue_job"] = may_go_on.wait  # type: ignore[assignment]
    creating = asyncio.create_task(shop.edge_over(store).create(TENANT, background_request()))
    while not shop.backend.stored():
        await asyncio.sleep(0.001)
    ((_, response_id),) = shop.backend.stored()
    cancelling = asyncio.create_task(shop.edge.cancel(TENANT, response_id))
    await asyncio.sleep(0.02)
    may_go_on.set()
    await creating
    assert (await cancelling).status is Status.CANCELLED


# ---- Left by others ----


async def test_a_response_whose_job_used_up_its_attempts_is_told_as_failed(shop: Bench) -> None:
    record = await shop.edge.create(TENANT, background_request(), session_id=TALK)
    for _ in range(queueing.JOB_ATTEMPTS):
        job = await shop.claimed()
        await shop.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    answers = await asyncio.gather(*(shop.replica().current(TENANT, record.id) for _ in range(5)))
    log = await shop.log(record.id)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert [whole(answer) for answer in answers] == [fold(log)] * 5
    assert "attempts exhausted" in fold(log)["error"]["message"]
    assert await is_free(shop, TALK)


async def test_a_response_whose_job_is_forgotten_fails(shop: Bench) -> None:
    record = await shop.create()
    await shop.backend.lose(TENANT, Kind.JOB, record.id)
    ended = whole(await shop.edge.current(TENANT, record.id))
    assert (ended["status"], fold(await shop.log(record.id))) == ("failed", ended)
    assert "no longer exists" in ended["error"]["message"]


async def test_one_whose_log_is_forgotten_as_well_fails_with_a_log(shop: Bench) -> None:
    record = await shop.create()
    await shop.backend.lose(TENANT, Kind.JOB, record.id)
    await shop.backend.lose(TENANT, Kind.LOG, record.id)
    ended = whole(await shop.edge.current(TENANT, record.id))
    assert ended["status"] == "failed"
    assert fold(await shop.log(record.id)) == ended


async def test_a_job_whose_tenant_is_not_in_line_is_claimed_when_somebody_asks_after_it(shop: Bench) -> None:
    record = await shop.create()
    places = [Unfile(Index.QUEUE, queueing.QUEUE, place_id(TENANT, 0)), Delete(Ref(Kind.LINE, TENANT))]
    await shop.backend.change(*tree_of(queueing.DISPATCH_TENANT, TENANT), *places)
    assert await shop.store.claim_job(queueing.DISPATCH_TENANT, [queueing.QUEUE], holder="test") is None
    assert (await shop.edge.current(TENANT, record.id)).status is Status.QUEUED
    assert (await shop.claimed(queueing.DISPATCH_TENANT)).id == record.id


async def test_it_is_accepted_by_one_call_of_the_store(shop: Bench) -> None:
    store = shop.new_store()
    await shop.edge_over(store).create(TENANT, background_request(), session_id=TALK)
    assert [name for name, _ in store.calls if name != "ready"] == ["begin_turn", "commit_turn"]


async def test_what_other_services_store_is_theirs_to_end(shop: Bench) -> None:
    record = Record(new_response_id(RandomIds()), Status.IN_PROGRESS, b"{}")
    await shop.store.put(TENANT, record)
    assert (await shop.edge.current(TENANT, record.id)).status is Status.IN_PROGRESS


# ---- Followed ----


async def test_every_replica_tells_the_same_bytes_from_any_place(shop: Bench) -> None:
    record = await shop.create()
    following = asyncio.create_task(shop.frames(record.id))
    await shop.run_next()
    everything = await following
    frames = [frame + b"\n\n" for frame in everything.split(b"\n\n")[:-1]]
    for after in range(len(frames)):
        assert await shop.frames(record.id, after=after) == b"".join(frames[after + 1 :])


async def test_following_what_nobody_works_on_ends_it(shop: Bench) -> None:
    record = await shop.create()
    following = asyncio.create_task(shop.frames(record.id))
    await asyncio.sleep(0.02)
    for _ in range(queueing.JOB_ATTEMPTS):
        job = await shop.claimed()
        await shop.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    assert events.decode(await following)[-1]["type"] == events.FAILED


async def test_a_stream_that_is_not_kept_any_more_is_told_again(shop: Bench) -> None:
    record = await shop.create()
    await shop.run_next()
    await shop.backend.lose(TENANT, Kind.LOG, record.id)
    log = await shop.log(record.id)
    assert fold(log) == whole(await shop.edge.current(TENANT, record.id))
    assert text_of(log[-1]["response"]) == shop.engine.text
    for after in (0, len(log) - 1, 99):
        with pytest.raises(InvalidRequest, match="Without 'starting_after'") as refused:
            await shop.frames(record.id, after=after)
        assert (refused.value.field, refused.value.code) == ("starting_after", "unsupported_parameter")


# ---- Deleted ----


async def test_deleting_a_running_one_stops_it_and_ends_its_streams(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.holds_at = 3
    async with shop.worker():
        following = asyncio.create_task(shop.frames(record.id))
        await shop.until(lambda: len(shop.engine.told) == 3)
        await shop.replica().delete(TENANT, record.id)
        await shop.until(lambda: shop.engine.running == 0)
        assert events.decode(await following)[-1]["type"] == events.CANCELLED
    with pytest.raises(ResponseNotFound):
        await shop.edge.current(TENANT, record.id)


async def test_deleting_what_has_ended_or_never_was(shop: Bench) -> None:
    record = await shop.create()
    await shop.run_next()
    await shop.edge.delete(TENANT, record.id)
    with pytest.raises(ResponseNotFound):
        await shop.edge.delete(TENANT, record.id)


async def test_a_conversation_is_locked_while_a_response_waits_in_it(shop: Bench) -> None:
    await shop.edge.create(TENANT, background_request(), session_id=TALK)
    shop.clock.advance(120)
    with pytest.raises(SessionLocked):
        await shop.replica().create(TENANT, background_request(), session_id=TALK)


async def test_the_log_does_not_quote_a_request_that_is_rejected(shop: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(ModelNotFound, match="canary"):
        await shop.edge.create(TENANT, background_request(model="canary"))
    assert "was not accepted: ModelNotFound model_not_found" in caplog.text
    assert "canary" not in caplog.text


async def test_a_response_whose_output_the_store_rejects_can_be_ended_and_read(shop: Bench) -> None:
    record = await shop.create()
    job = await shop.claimed()
    shop.engine.holds_at = 3
    running = asyncio.create_task(shop.run_of(job).go())
    await shop.logged(record.id, ids=3)
    running.cancel()
    await asyncio.wait([running])
    await shop.store.settle_job(TENANT, job.fence, JobOutcome.FAILED)
    ended = whole(await shop.edge_over(without_room_for_output(shop)).current(TENANT, record.id))
    assert (ended["status"], ended["output"]) == ("failed", [])
    assert fold(await shop.log(record.id)) == ended
