from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.clock import ManualClock
from antiphon_core.errors import EngineFault, StaleFence, StoreUnavailable
from antiphon_core.fold import fold
from antiphon_core.ids import RandomIds, new_conversation_id, new_response_id
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.jobs import DISPATCH_QUEUE, PAYLOAD_DAMAGED, JobDraft, JobState
from antiphon_core.ports.quotas import Draw, QuotaAnswer, QuotaRequest
from antiphon_core.ports.store import Status
from antiphon_core.sealing_keys import SealingKeys
from antiphon_core.telemetry import correlation, spans
from antiphon_core.telemetry.trace_context import TraceContext
from antiphon_edge.background import worker
from antiphon_edge.background.background_policy import JOB_ATTEMPTS
from antiphon_edge.background.model_health import ModelHealth
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.decisions.logs import batch_id, checksum
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.model import Kind, Ref, Row
from antiphon_store.topics.trees import tree_of
from tests.support.background import (
    LEASE_MS,
    PACE,
    TENANT,
    TIMING,
    Bench,
    TextTranslator,
    background_request,
    bench,
    hasten,
    text_of,
    whole,
)
from tests.support.recorded_spans import recorded
from tests.support.waiting import WAIT_MAX_S

Damage = Callable[[dict[Ref, Row], str], None]


@pytest.fixture
async def system(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    hasten(monkeypatch)
    async with bench() as made:
        yield made


async def require_whole(system: Bench, response_id: str, tenant: str = TENANT) -> None:
    """Checks that a response completes, with dense sequence numbers and no repeated text."""
    ended = whole(await system.ended(response_id, tenant=tenant))
    log = events.decode(await system.frames(response_id, tenant=tenant))
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert fold(log) == log[-1]["response"] == ended
    assert (ended["status"], text_of(ended)) == ("completed", system.engine.text)
    assert "".join(event["delta"] for event in log if "delta" in event) == system.engine.text


async def test_jobs_of_many_tenants_are_all_completed(system: Bench) -> None:
    tenants = [f"tenant-{number}" for number in range(5)]
    records = [(tenant, await system.create(tenant=tenant)) for tenant in tenants for _ in range(4)]
    async with system.worker(slots=3), system.worker(slots=2):
        for tenant, record in records:
            await require_whole(system, record.id, tenant)
    assert system.engine.starts == [0] * len(records)


async def test_responses_beyond_the_slots_of_a_worker_stay_queued(system: Bench) -> None:
    records = [await system.create() for _ in range(5)]
    system.engine.holds_at = 2
    async with system.worker(slots=2):
        await system.until(lambda: system.engine.running == 2)
        await asyncio.sleep(0.1)
        assert len(system.engine.starts) == 2
        states = [(await system.edge.current(TENANT, record.id)).status for record in records]
        assert sorted(states) == [Status.IN_PROGRESS] * 2 + [Status.QUEUED] * 3


async def test_looking_for_a_job_is_not_traced(system: Bench) -> None:
    looks: list[TraceContext | None] = []
    with recorded() as tracer:
        async with system.worker() as worker:
            service = worker.store._store  # not its class: other workers of this process poll, too
            look = service._claim_next

            async def noted(*args: Any) -> Any:
                looks.append(correlation.current().trace)
                return await look(*args)

            service._claim_next = noted  # type: ignore[assignment, method-assign]
            record = await system.create()
            await require_whole(system, record.id)
            await system.until(lambda: len(looks) > 1)
    assert not [trace for trace in looks if trace is None or trace.is_sampled]
    (job,) = (span for span in tracer.spans if span.name == spans.JOB)
    assert job.parent is None  # not the poll that found the job


async def test_completed_response_settles_its_job_as_succeeded(system: Bench) -> None:
    record = await system.create()
    async with system.worker():
        await require_whole(system, record.id)

        async with asyncio.timeout(WAIT_MAX_S):
            while (await system.store.describe_job(TENANT, record.id)).state is not JobState.SUCCEEDED:
                await asyncio.sleep(0.01)


# ---- Charging ----

BUCKET = Draw(
    "tokens", 0, 0, 10**6, 0.001
)  # as an edge describes the bucket; too slow to be refilled while a test runs


async def taken(system: Bench) -> int:
    """The tokens that the tenant was charged, as an edge of another replica sees them."""
    answer: QuotaAnswer = await system.new_store().take_quota(TENANT, QuotaRequest([BUCKET]))
    (level,) = answer.levels
    return round(level.capacity - level.level)


async def test_the_tokens_of_responses_are_charged(system: Bench) -> None:
    assert await taken(system) == 0
    records = [await system.create() for _ in range(3)]
    async with system.worker():
        usages = [whole(await system.ended(record.id))["usage"] for record in records]
    assert await taken(system) == sum(usage["total_tokens"] for usage in usages) > 0


async def test_a_response_that_was_taken_over_is_charged_once(system: Bench) -> None:
    await taken(system)
    record = await system.create()
    system.engine.holds_at = 6
    async with system.worker() as first:
        await system.logged(record.id, ids=6)
        await first.kill()
    system.engine.holds_at = None
    async with system.worker():
        ended = whole(await system.ended(record.id))
    assert await taken(system) == ended["usage"]["total_tokens"]


async def test_cancelled_response_is_charged_for_its_output(system: Bench) -> None:
    await taken(system)
    record = await system.create()
    system.engine.holds_at = 6
    async with system.worker() as working:
        await system.logged(record.id, ids=6)
        await system.replica().cancel(TENANT, record.id)
        await working.part.stop()
    assert await taken(system) == 6


async def test_tokens_of_a_failed_summary_are_charged() -> None:
    fault = EngineFault("The model wrote no summary.")
    fault.usage = {"total_tokens": 7}
    async with bench(translator=TextTranslator(fault=fault)) as texts:
        await taken(texts)
        record = await texts.create()
        async with texts.worker() as working:
            await texts.ended(record.id)
            await working.part.stop()
        assert await taken(texts) == 7


# ---- Workers that die ----


@pytest.mark.parametrize("told", [1, 9])
async def test_worker_resumes_the_response_of_a_dead_worker(system: Bench, told: int) -> None:
    record = await system.create()
    following = asyncio.create_task(system.frames(record.id))
    system.engine.holds_at = told
    async with system.worker() as first:
        await system.logged(record.id, ids=told)
        await first.kill()
    system.engine.holds_at = None
    async with system.worker():
        await require_whole(system, record.id)
    assert system.engine.starts == [0, told]
    assert await following == await system.frames(record.id)


async def test_responses_complete_after_several_worker_deaths(system: Bench) -> None:
    records = [await system.create() for _ in range(3)]
    for told in (2, 6, 11):
        system.engine.holds_at = told
        async with system.worker() as mortal:
            await system.until(lambda: system.engine.told.count(system.engine.holds_at - 1) == 3)  # type: ignore[operator]
            for record in records:
                await system.logged(record.id, ids=told)
            await mortal.kill()
    system.engine.holds_at = None
    async with system.worker():
        for record in records:
            await require_whole(system, record.id)


async def test_worker_that_wakes_after_its_lease_expired_writes_nothing(system: Bench) -> None:
    record = await system.create()
    job = await system.store.claim_job(TENANT, [DISPATCH_QUEUE], holder="sleeper", lease_ttl_ms=LEASE_MS)
    system.engine.holds_at = 4
    sleeper = system.run_of(job)
    going = asyncio.create_task(sleeper.go())
    await system.logged(record.id, ids=4)
    system.engine.holds_at = None
    system.clock.advance(LEASE_MS / 1000)
    async with system.worker():
        await require_whole(system, record.id)
    before = await system.frames(record.id)
    sleeper.break_off()
    with pytest.raises(StaleFence):
        await going
    assert await system.frames(record.id) == before


async def test_a_job_that_kills_every_worker_ends_as_failed(system: Bench) -> None:
    record = await system.create()
    system.engine.holds_at = 3
    for _ in range(JOB_ATTEMPTS):
        async with system.worker() as mortal:
            await system.until(lambda: system.engine.running == 1)
            await mortal.kill()
    system.engine.holds_at = None
    ended = whole(await system.ended(record.id))
    assert (ended["status"], ended["error"]["code"]) == ("failed", "server_error")
    assert fold(await system.log(record.id)) == ended


async def test_unexpected_error_in_every_attempt_ends_the_response_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    translator = TextTranslator(fault=ZeroDivisionError("a secret of ours"))
    async with bench(translator) as system, system.worker():
        record = await system.create()
        ended = whole(await system.ended(record.id))
        assert ended["status"] == "failed"
        assert "secret" not in ended["error"]["message"]
        assert fold(await system.log(record.id)) == ended


@pytest.mark.parametrize("payload", [b"no JSON", dumps({"created_at": 1})])
async def test_unreadable_job_fails_and_other_jobs_still_run(system: Bench, payload: bytes) -> None:
    poison = new_response_id(RandomIds())
    await system.store.enqueue_job(TENANT, JobDraft(poison, DISPATCH_QUEUE, payload, max_attempts=2))
    records = [await system.create() for _ in range(2)]
    async with system.worker(slots=1):
        for record in records:
            await require_whole(system, record.id)
        async with asyncio.timeout(WAIT_MAX_S):
            while (await system.store.describe_job(TENANT, poison)).state is not JobState.FAILED:
                await asyncio.sleep(0.01)


# ---- Stopped ----


async def test_a_worker_that_is_stopped_lets_running_responses_end(system: Bench) -> None:
    records = [await system.create() for _ in range(2)]
    system.engine.pause_s = 0.005
    async with system.worker(slots=1) as only:
        await system.until(lambda: system.engine.running == 1)
        await only.part.stop()
        states = [(await system.edge.current(TENANT, record.id)).status for record in records]
        assert sorted(states) == [Status.COMPLETED, Status.QUEUED]


async def test_response_that_outlasts_the_drain_is_released_to_another_worker(system: Bench) -> None:
    system.timing = replace(TIMING, job_lease_ms=3_600_000)
    record = await system.create()
    system.engine.holds_at = 5
    async with system.worker(drain_s=0.05) as first:
        await system.logged(record.id, ids=5)
        await first.part.stop()
    assert system.engine.running == 0
    system.engine.holds_at = None
    async with system.worker():
        await require_whole(system, record.id)
    assert system.engine.starts == [0, 5]


async def test_an_idle_worker_stops_at_once(system: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "CLAIM_WAIT_MS", 60_000)
    async with system.worker(slots=64, drain_s=60) as idle, asyncio.timeout(WAIT_MAX_S):
        await asyncio.sleep(0.02)
        await idle.part.stop()


async def test_one_slot_at_a_time_asks_for_jobs(system: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "CLAIM_WAIT_MS", 60_000)
    async with system.worker(slots=16) as idle:
        await system.until(lambda: bool(idle.store.calls))
        await asyncio.sleep(0.05)
        assert [name for name, _ in idle.store.calls if name != "ready"] == ["claim_job"]


@pytest.mark.parametrize(
    ("fault", "level"), [(StoreUnavailable("The store is full."), "WARNING"), (KeyError("a bug"), "ERROR")]
)
async def test_idle_slots_of_a_store_that_fails_log_one_line_and_poll_one_at_a_time(
    system: Bench, caplog: pytest.LogCaptureFixture, fault: Exception, level: str
) -> None:
    running = most = looks = 0

    async def look() -> None:
        nonlocal running, most, looks
        running, looks = running + 1, looks + 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        raise fault

    async with system.worker(slots=64) as idle:
        idle.store.before["claim_job"] = look
        await system.until(lambda: looks >= 10)
    assert most == 1
    assert [record.levelname for record in caplog.records if "claim" in record.message] == [level]


async def test_no_event_log_writer_remains_after_a_response_was_released(system: Bench) -> None:
    await system.create()
    async with system.worker(drain_s=0.02) as first:
        arrived = asyncio.Event()

        async def hang() -> None:
            arrived.set()
            await asyncio.Event().wait()

        first.store.before["append_events"] = hang
        await arrived.wait()
        await first.part.stop()
        assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("event log")] == []


# ---- Cancelled ----


async def test_cancellation_at_any_replica_stops_the_model(system: Bench) -> None:
    record = await system.create()
    following = asyncio.create_task(system.frames(record.id))
    system.engine.holds_at = 6
    async with system.worker():
        await system.until(lambda: len(system.engine.told) == 6)
        ended = whole(await system.replica().cancel(TENANT, record.id))
        assert system.engine.running == 0
    assert ended["status"] == "cancelled"
    assert system.engine.text.startswith(text_of(ended))
    log = events.decode(await following)
    assert (log[-1]["type"], log[-1]["response"]) == (events.CANCELLED, ended)
    state = (await system.store.describe_job(TENANT, record.id)).state
    assert state in (JobState.RUNNING, JobState.CANCELLED)  # the record is committed before the job is settled


def test_cancellation_is_polled_at_least_twice_a_second() -> None:
    assert TurnTiming().cancel_pace.every_s <= 0.5


async def test_cancelled_response_becomes_the_head_of_its_conversation(system: Bench) -> None:
    talk = new_conversation_id(RandomIds())
    record = await system.edge.create(TENANT, background_request(), session_id=talk)
    system.engine.holds_at = 6
    async with system.worker():
        await system.until(lambda: len(system.engine.told) == 6)
        await system.store.cancel_job(TENANT, record.id)
        assert (await system.ended(record.id)).status is Status.CANCELLED
    session = await system.store.describe_session(TENANT, talk)
    assert (session.head_id, session.lease) == (record.id, None)


async def test_cancellation_that_races_with_the_end_leaves_one_terminal_event(system: Bench) -> None:
    system.engine.pause_s = 0.001
    records = [await system.create() for _ in range(12)]
    async with system.worker(slots=4):
        for number, record in enumerate(records):
            await asyncio.sleep(0.002 * number)
            await system.edge.cancel(TENANT, record.id)
        for record in records:
            ended = whole(await system.ended(record.id))
            log = await system.log(record.id)
            kinds = [event["type"] for event in log]
            assert sum(kind in events.TERMINAL for kind in kinds) == 1
            assert log[-1]["response"] == fold(log) == ended
            assert ended["status"] in ("completed", "cancelled")


# ---- Outages of the store ----


@pytest.mark.parametrize("call", ["heartbeat_job", "claim_job", "settle_job", "append_events", "describe_job"])
@pytest.mark.parametrize("executes", [False, True])
async def test_failed_and_unacknowledged_store_calls_do_not_restart_a_response(
    system: Bench, call: str, executes: bool
) -> None:
    system.engine.pause_s = 0.005
    async with system.worker() as only:
        only.store.failing[call], only.store.executes = 2, executes
        records = [await system.create() for _ in range(2)]
        if call == "claim_job" and executes:  # the worker does not know of these claims: they must expire
            await system.until(lambda: not only.store.failing[call])
            system.clock.advance(LEASE_MS / 1000)
        for record in records:
            await require_whole(system, record.id)
    assert system.engine.starts == [0, 0]


async def test_a_heartbeat_that_fails_does_not_stop_a_response(system: Bench) -> None:
    record = await system.create()
    system.engine.holds_at = 3
    async with system.worker() as only:
        await system.until(lambda: len(system.engine.told) == 3)
        only.store.failing["heartbeat_job"] = 3
        async with asyncio.timeout(WAIT_MAX_S):
            while only.store.failing["heartbeat_job"]:
                await asyncio.sleep(0.005)
        assert system.engine.starts == [0]
        await system.edge.cancel(TENANT, record.id)
    assert system.engine.starts == [0]


async def test_response_completes_after_a_store_outage(system: Bench) -> None:
    record = await system.create()
    system.engine.holds_at = 4
    system.engine.pause_s = 0.005
    async with system.worker() as only:
        await system.logged(record.id, ids=4)
        only.store.lost = True
        system.engine.goes_on.set()
        await system.until(lambda: system.engine.running == 0)
        only.store.lost = False
        system.clock.advance(LEASE_MS / 1000)
        await require_whole(system, record.id)
    assert system.engine.starts[0] == 0
    assert system.engine.starts[1] >= 4


async def test_session_lease_lost_in_mid_run_is_not_counted_as_a_model_failure(
    system: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[str] = []
    monkeypatch.setattr(ModelHealth, "note_failure", lambda _health, model: faults.append(model))
    system.timing = replace(TIMING, session_pace=PACE)
    talk = new_conversation_id(RandomIds())
    record = await system.edge.create(TENANT, background_request(), session_id=talk)
    system.engine.holds_at = 6
    async with system.worker():
        await system.logged(record.id, ids=6)
        lease = (await system.store.describe_session(TENANT, talk)).lease
        await system.store.release_session(TENANT, lease.fence)
        await system.until(lambda: len(system.engine.starts) == 2)
        system.engine.goes_on.set()
        await require_whole(system, record.id)
    assert system.engine.starts == [0, 6]
    assert faults == []


async def test_response_with_a_damaged_sealed_job_fails_and_others_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    inner: list[MemoryRows] = []

    def sealed_rows(clock: ManualClock) -> RowBackend:
        inner.append(MemoryRows(clock))
        return seal_rows(inner[0], SealingKeys.ephemeral())

    async with bench(backend=sealed_rows) as made:
        damaged, others = await made.create(), [await made.create() for _ in range(3)]
        rows, ref = inner[0].trees[tree_of(TENANT, damaged.id)].rows, Ref(Kind.JOB, damaged.id)
        rows[ref] = rows[ref]._replace(body=rows[ref].body[:-1])
        async with made.worker(slots=1):
            for record in others:
                await require_whole(made, record.id)
            ended = await made.ended(damaged.id)
        assert ended.status is Status.FAILED
        assert PAYLOAD_DAMAGED in whole(ended)["error"]["message"]


def with_payload(change: Callable[[dict[str, Any]], Any]) -> Damage:
    def damage(rows: dict[Ref, Row], response_id: str) -> None:
        ref = Ref(Kind.JOB, response_id)
        rows[ref] = rows[ref]._replace(body=dumps(change(loads(rows[ref].body))))

    return damage


def with_frames(frames: bytes) -> Damage:
    """The first events of the log are others, with a checksum that fits."""

    def damage(rows: dict[Ref, Row], response_id: str) -> None:
        ref = Ref(Kind.BATCH, batch_id(response_id, 0))
        rows[ref] = Row({**rows[ref].fields, "crc": checksum(response_id, 0, frames)}, frames)

    return damage


DAMAGES: dict[str, Damage] = {
    "no created_at": with_payload(lambda made: {name: made[name] for name in made if name != "created_at"}),
    "no object": with_payload(list),
    "a request that is a list": with_payload(lambda made: {**made, "request": []}),
    "a trace that is a number": with_payload(lambda made: {**made, "trace": 5}),
    "frames without JSON": with_frames(b"event: response.created\ndata: {\n\n" * 2),
    "a delta without a response": with_frames(b'data: {"type":"response.output_text.delta","item_id":5}\n\n' * 2),
    "a response that is a number": with_frames(b'data: {"type":"response.created","response":7}\n\n' * 2),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_response_with_damaged_stored_data_fails_once_and_others_complete(
    system: Bench, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, others = await system.create(), [await system.create() for _ in range(2)]
    DAMAGES[damage](system.backend.trees[tree_of(TENANT, damaged.id)].rows, damaged.id)
    async with system.worker(slots=1):
        for record in others:
            await require_whole(system, record.id)
        ended = await system.ended(damaged.id)
    assert (ended.status, whole(ended)["error"]["code"]) == (Status.FAILED, "server_error")
    assert PAYLOAD_DAMAGED in whole(ended)["error"]["message"]
    job = await system.store.describe_job(TENANT, damaged.id)
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert not [each for each in caplog.records if each.exc_info]
