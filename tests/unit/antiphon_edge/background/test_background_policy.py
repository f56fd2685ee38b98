from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from antiphon_core import events, response
from antiphon_core.errors import EngineUnavailable, InvalidRequest, StaleFence, StoreUnavailable, TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.fold import Fold, fold
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.jsons import Object
from antiphon_core.ports.jobs import DISPATCH_QUEUE, DISPATCH_TENANT, Job, JobOutcome
from antiphon_core.ports.store import Lease, Precondition, Record, Status, TurnCommit, TurnRequest
from antiphon_core.ports.translator import Batch, Receive, Resume, Translator, Turn
from antiphon_edge.background.background_policy import (
    JOB_ATTEMPTS,
    OPENING_EVENTS,
    WAITING_LEASE_MS,
    Postponed,
    job_of,
    opening,
)
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.leases import RenewalPace
from antiphon_edge.turns.turn_finisher import failure
from antiphon_store.backends.registry import row_backend
from antiphon_store.rows.model import Kind
from antiphon_store.service import StoreService
from tests.support.background import (
    TENANT,
    TIMING,
    Attempt,
    Bench,
    TextTranslator,
    background_request,
    bench,
    hasten,
    text_of,
    whole,
    without_room_for_output,
)
from tests.support.pushed import generated
from tests.support.server_tools import server
from tests.support.translators import ScriptedTranslator


@pytest.fixture
async def system(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    hasten(monkeypatch)
    async with bench() as made:
        yield made


async def interrupt(system: Bench, job: Job, *, behind: int) -> None:
    """Interrupts an attempt behind so many token ids and releases its job, like a worker that stops."""
    system.engine.holds_at = behind
    run = system.run_of(job)
    going = asyncio.create_task(run.go())
    await system.until(lambda: len(system.engine.told) >= behind)
    await system.logged(job.id, ids=behind)
    going.cancel()
    await asyncio.wait([going])
    await system.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    system.engine.holds_at = None


async def test_queued_turn_runs_to_completed_and_its_log_matches_its_record(system: Bench) -> None:
    record = await system.create()
    await system.run_next()
    log = await system.log(record.id)
    opening = [(event["type"], event["response"]["status"]) for event in log[:3]]
    assert opening == [
        (events.CREATED, "queued"),
        (events.QUEUED, "queued"),
        (events.IN_PROGRESS, "in_progress"),
    ]
    ended = whole(await system.edge.current(TENANT, record.id))
    assert fold(log) == log[-1]["response"] == ended
    assert (ended["status"], text_of(ended)) == ("completed", system.engine.text)


async def test_record_is_in_progress_while_the_turn_runs(system: Bench) -> None:
    record = await system.create()
    system.engine.holds_at = 3
    going = asyncio.create_task(system.run_of(await system.claimed()).go())
    await system.until(lambda: len(system.engine.told) == 3)
    assert (await system.edge.current(TENANT, record.id)).status is Status.IN_PROGRESS
    going.cancel()
    await asyncio.wait([going])


@pytest.mark.parametrize("cuts", [[1], [7], [2, 9, 10]])
async def test_next_attempt_resumes_after_the_last_logged_token_id(system: Bench, cuts: list[int]) -> None:
    whole_run = await system.create()
    await system.run_next()
    expected = await system.log(whole_run.id)
    system.engine.starts.clear()
    system.engine.told.clear()
    record = await system.create()
    for cut in cuts:
        await interrupt(system, await system.claimed(), behind=cut)
    await system.run_next()
    log = await system.log(record.id)
    assert system.engine.starts == [0, *cuts]
    assert system.engine.told == list(range(len(system.engine.ids)))
    assert [(event["type"], event.get("delta")) for event in log] == [
        (event["type"], event.get("delta")) for event in expected
    ]
    ended = whole(await system.edge.current(TENANT, record.id))
    assert fold(log) == log[-1]["response"] == ended
    assert text_of(ended) == system.engine.text
    assert ended["usage"]["output_tokens"] == expected[-1]["response"]["usage"]["output_tokens"]


async def test_store_lost_before_the_commit_makes_the_next_attempt_repeat_no_events(system: Bench) -> None:
    record = await system.create()
    job, mortal = await system.claimed(), system.new_store()

    async def die() -> None:
        mortal.lost = True

    mortal.before["commit_turn"] = die
    run = system.run_of(job, store=mortal)
    with pytest.raises(StoreUnavailable):
        await run.go()
    await system.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    await system.run_next()
    log = await system.log(record.id)
    kinds = [event["type"] for event in log]
    assert kinds.count(events.OUTPUT_TEXT_DONE) == kinds.count(events.OUTPUT_ITEM_DONE) == 1
    assert fold(log) == log[-1]["response"] == whole(await system.edge.current(TENANT, record.id))
    assert system.engine.starts == [0, len(system.engine.ids)]


async def test_attempt_at_an_ended_response_changes_nothing(system: Bench) -> None:
    record = await system.create()
    job = await system.claimed()
    await system.run_of(job).go()
    before = await system.frames(record.id)
    again = system.run_of(job)
    await again.go()
    await again.cancel()
    assert await system.frames(record.id) == before
    assert system.engine.starts == [0]


# ---- Engines without token ids ----


@pytest.fixture
async def texts(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A bench whose translator sends no token ids."""
    hasten(monkeypatch)
    async with bench(TextTranslator()) as made:
        yield made


async def test_partial_text_without_token_ids_fails_in_the_next_attempt(texts: Bench) -> None:
    translator = texts.translator
    assert isinstance(translator, TextTranslator)
    translator.hang = True
    record = await texts.create()
    job = await texts.claimed()
    run = texts.run_of(job)
    going = asyncio.create_task(run.go())
    await texts.logged(record.id, numbers=7)  # the text has begun
    going.cancel()
    await asyncio.wait([going])
    await texts.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    await texts.run_next()
    log = await texts.log(record.id)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert "cannot continue output that is unfinished" in log[-1]["response"]["error"]["message"]
    assert fold(log) == whole(await texts.edge.current(TENANT, record.id))
    assert len(translator.turns) == 1


async def test_turn_without_token_ids_and_output_starts_again_in_the_next_attempt(texts: Bench) -> None:
    translator = texts.translator
    assert isinstance(translator, TextTranslator)
    record = await texts.create()
    job = await texts.claimed()
    translator.hangs_at_once = True
    going = asyncio.create_task(texts.run_of(job).go())
    await texts.logged(record.id, numbers=3)  # response.in_progress
    going.cancel()
    await asyncio.wait([going])
    translator.hangs_at_once = False
    await texts.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    await texts.run_next()
    log = await texts.log(record.id)
    assert (log[-1]["type"], text_of(log[-1]["response"])) == (events.COMPLETED, "Hello there")


async def test_text_without_token_ids_fails_at_once_when_its_translator_is_lost(texts: Bench) -> None:
    translator = texts.translator
    assert isinstance(translator, TextTranslator)
    translator.fault = TranslatorUnavailable("Socket closed")
    record = await texts.create()
    await texts.run_next()
    ended = whole(await texts.edge.current(TENANT, record.id))
    assert (ended["status"], ended["error"]["message"]) == ("failed", "Socket closed")
    assert (text_of(ended), ended["output"][0]["status"]) == ("Hello there", "incomplete")


# ---- Outages of translators and engines ----


async def test_turn_waits_for_an_unavailable_engine_and_completes(system: Bench) -> None:
    record = await system.create()
    system.engine.away = True
    going = asyncio.create_task(system.run_next())
    await asyncio.sleep(0.02)
    system.engine.away = False
    await going
    assert (await system.edge.current(TENANT, record.id)).status is Status.COMPLETED


async def test_turn_fails_when_the_engine_is_unavailable_after_all_retries(system: Bench) -> None:
    record = await system.create()
    system.engine.away = True
    await system.run_next()
    ended = whole(await system.edge.current(TENANT, record.id))
    assert (ended["status"], ended["error"]["message"]) == ("failed", "The storyteller is away.")


async def test_unavailable_engine_uses_up_no_attempt_of_the_job(system: Bench) -> None:
    await system.create()
    system.engine.away = True
    job = await system.claimed()
    with pytest.raises(Postponed) as caught:
        await system.run_of(job).go()
    assert (caught.value.counts, caught.value.pause_s > 0) == (False, True)
    await system.store.settle_job(TENANT, job.fence, JobOutcome.POSTPONED)
    again = await system.claimed()
    assert again.max_attempts - again.attempt == job.max_attempts - job.attempt


async def test_worker_without_tools_leaves_the_turn_to_another_and_uses_up_no_attempt(system: Bench) -> None:
    await system.create(tools=[server()])
    with pytest.raises(Postponed) as caught:
        await system.run_of(await system.claimed()).go()
    found = caught.value
    assert (found.counts, found.is_model_fault, found.pause_s > 0) == (False, False, True)


async def test_turn_that_no_worker_has_tools_for_fails_and_says_so(system: Bench) -> None:
    record = await system.create(tools=[server()])
    await system.run_next()
    ended = whole(await system.edge.current(TENANT, record.id))
    assert (ended["status"], ended["error"]["message"]) == ("failed", "This process calls no tools of servers.")


async def test_attempts_that_only_waited_do_not_lengthen_the_backoff(system: Bench) -> None:
    await system.create()
    system.engine.away = True
    for _ in range(5):
        await system.store.settle_job(TENANT, (await system.claimed()).fence, JobOutcome.WAITED)
    with pytest.raises(Postponed) as caught:
        await system.run_of(await system.claimed()).go()
    assert caught.value.pause_s <= system.timing.engine_retry.first_s


async def test_a_postponed_turn_keeps_its_session(system: Bench) -> None:
    waiting = await in_session(system)
    system.engine.away = True
    with pytest.raises(Postponed):
        await system.run_of(await system.claimed()).go()
    lease = (await system.store.describe_session(TENANT, TALK)).lease
    assert lease is not None
    assert lease.holder == waiting
    assert lease.expires_at_ms - system.clock.now_ms() > WAITING_LEASE_MS - 60_000


async def test_turn_resumes_after_an_engine_failure_in_mid_run(system: Bench) -> None:
    record = await system.create()
    system.engine.dies_behind = 4
    going = asyncio.create_task(system.run_next())
    await system.until(lambda: len(system.engine.told) == 4)
    system.engine.dies_behind, system.engine.away = None, True
    await asyncio.sleep(0.02)
    assert (await system.edge.current(TENANT, record.id)).status is Status.IN_PROGRESS
    system.engine.away = False
    await going
    log = await system.log(record.id)
    assert events.ERROR not in [event["type"] for event in log]
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert fold(log) == whole(await system.edge.current(TENANT, record.id))
    assert text_of(log[-1]["response"]) == system.engine.text
    assert system.engine.starts == [0, 4]
    assert system.engine.told == list(range(len(system.engine.ids)))


async def test_engine_failure_before_the_first_token_leaves_no_error_in_the_log(system: Bench) -> None:
    record = await system.create()
    system.engine.dies_behind = 0
    going = asyncio.create_task(system.run_next())
    await system.until(lambda: len(system.engine.starts) == 2)
    system.engine.dies_behind = None
    await going
    log = await system.log(record.id)
    assert events.ERROR not in [event["type"] for event in log]
    assert fold(log) == whole(await system.edge.current(TENANT, record.id))
    assert text_of(log[-1]["response"]) == system.engine.text


async def test_response_fails_after_repeated_engine_failures(system: Bench) -> None:
    record = await system.create()
    system.engine.dies_behind = 2
    await system.run_next()
    ended = whole(await system.edge.current(TENANT, record.id))
    assert (ended["status"], ended["error"]["message"]) == ("failed", "The storyteller broke down.")
    assert system.engine.starts == [2 * number for number in range(JOB_ATTEMPTS)]
    assert fold(await system.log(record.id)) == ended


class BreakingTranslator(TextTranslator):
    """A translator whose engine fails once for each number, behind so many batches."""

    def __init__(self, *breaks: int) -> None:
        super().__init__()
        self.breaks = list(breaks)

    async def _play(self, turn: Turn, asked: Object, hangs: bool) -> AsyncGenerator[Batch, None]:
        left = self.breaks.pop(0) if self.breaks else None
        said = Fold()
        body = response.skeleton(asked, response_id=turn.response_id, created_at=turn.created_at)
        body["usage"] = response.usage(input_tokens=3, output_tokens=2)
        said.feed(first_sequence=2, count=1, frames=events.encode({"type": events.CREATED, "response": body}))
        async for batch in super()._play(turn, asked, hangs):
            if left == 0:
                yield await failure(said, EngineUnavailable("The engine broke down."))
                return
            said.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
            left = None if left is None else left - 1
            yield batch


@pytest.mark.parametrize(("behind", "status"), [(0, "completed"), (2, "failed")])
async def test_engine_failure_without_token_ids_restarts_the_turn_only_before_output(
    monkeypatch: pytest.MonkeyPatch, behind: int, status: str
) -> None:
    hasten(monkeypatch)
    translator = BreakingTranslator(behind)
    async with bench(translator) as texts:
        record = await texts.create()
        await texts.run_next()
        ended = whole(await texts.edge.current(TENANT, record.id))
        assert (ended["status"], fold(await texts.log(record.id))) == (status, ended)
        assert len(translator.turns) == (2 if status == "completed" else 1)
        if status == "failed":
            assert (ended["error"]["message"], ended["usage"]["output_tokens"]) == ("The engine broke down.", 2)


class LosingTranslator(ScriptedTranslator):
    """A translator that loses its first streams behind two or more token ids."""

    def __init__(self, inner: Translator, *, losses: int) -> None:
        super().__init__()
        self.inner = inner
        self.losses = losses

    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        told = 0
        async with aclosing(generated(self.inner, turn, resume=resume, checkpoints=checkpoints)) as batches:
            async for batch in batches:
                receive(batch)
                told += len(batch.token_ids)
                if self.losses and told >= 2:
                    self.losses -= 1
                    raise TranslatorUnavailable("Socket closed")


async def test_translators_that_die_in_mid_stream_are_replaced(system: Bench) -> None:
    system.translator = LosingTranslator(system.translator, losses=4)
    record = await system.create()
    await system.run_next()
    log = await system.log(record.id)
    assert fold(log) == whole(await system.edge.current(TENANT, record.id))
    assert text_of(log[-1]["response"]) == system.engine.text
    assert len(system.engine.starts) == 5


# ---- Cancelled, deleted, taken over ----


async def test_cancellation_keeps_the_output_so_far(system: Bench) -> None:
    record = await system.create()
    system.engine.holds_at = 4
    run = system.run_of(await system.claimed())
    going = asyncio.create_task(run.go())
    await system.logged(record.id, ids=4)
    run.break_off()
    await going
    assert system.engine.running == 0
    log = await system.log(record.id)
    ended = whole(await system.edge.current(TENANT, record.id))
    assert log[-1]["type"] == events.CANCELLED
    assert fold(log) == log[-1]["response"] == ended
    assert ended["status"] == "cancelled"
    assert system.engine.text.startswith(text_of(ended))
    assert text_of(ended)


async def test_cancellation_before_the_turn_starts_ends_its_log_as_cancelled(system: Bench) -> None:
    record = await system.create()
    await system.run_of(await system.claimed()).cancel()
    log = await system.log(record.id)
    assert [event["type"] for event in log] == [events.CREATED, events.QUEUED, events.CANCELLED]
    assert fold(log) == whole(await system.edge.current(TENANT, record.id))


async def test_deleted_response_is_not_run_and_its_log_ends_as_cancelled(system: Bench) -> None:
    record = await system.create()
    job = await system.claimed()
    await system.store.delete(TENANT, record.id)
    await system.run_of(job).go()
    assert system.engine.starts == []
    stream = system.edge._follower.rest(TENANT, record.id, after=None)
    log = [event async for batch in stream for event in events.decode(batch.frames)]
    assert log[-1]["type"] == events.CANCELLED


async def test_a_response_deleted_in_mid_run_ends_its_log(system: Bench) -> None:
    record = await system.create()
    system.engine.holds_at = 4
    run = system.run_of(await system.claimed())
    going = asyncio.create_task(run.go())
    await system.until(lambda: len(system.engine.told) == 4)
    await system.store.delete(TENANT, record.id)
    run.break_off()
    await going
    stream = system.edge._follower.rest(TENANT, record.id, after=None)
    log = [event async for batch in stream for event in events.decode(batch.frames)]
    assert (log[-1]["type"], log[-1]["response"]["status"]) == (events.CANCELLED, "cancelled")


async def test_attempt_with_a_lost_job_lease_writes_nothing(system: Bench) -> None:
    record = await system.create()
    job = await system.claimed()
    await system.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    successor = await system.claimed(holder="another")
    with pytest.raises(StaleFence):
        await system.run_of(job).go()
    with pytest.raises(StaleFence):
        await system.run_of(job).cancel()
    await system.run_of(successor).go()
    log = await system.log(record.id)
    assert log[-1]["type"] == events.COMPLETED


async def test_lost_event_log_is_written_again_from_its_start(system: Bench) -> None:
    record = await system.create()
    await system.backend.lose(TENANT, Kind.LOG, record.id)
    await system.run_next()
    log = await system.log(record.id)
    assert [event["type"] for event in log[:2]] == [events.CREATED, events.QUEUED]
    assert fold(log) == whole(await system.edge.current(TENANT, record.id))


# ---- Conversations and sessions ----


TALK = new_conversation_id(RandomIds())  # all responses in the conversation are in one tree


async def lease_holder(system: Bench, session_id: str) -> str | None:
    lease = (await system.store.describe_session(TENANT, session_id)).lease
    return lease.holder if lease is not None else None


async def in_session(system: Bench, **members: str) -> str:
    """Queues a response in the session and returns its id."""
    return (await system.edge.create(TENANT, background_request(**members), session_id=TALK)).id


async def test_turn_in_a_session_holds_its_lease_until_the_end_and_becomes_the_head(system: Bench) -> None:
    first = await in_session(system)
    assert await lease_holder(system, TALK) == first
    await system.run_next()
    assert await lease_holder(system, TALK) is None
    assert (await system.store.describe_session(TENANT, TALK)).head_id == first
    second = await in_session(system, input="and then?")
    await system.run_next()
    record = await system.store.get(TENANT, second)
    assert (record.parent_id, record.session_id) == (first, TALK)


async def test_turn_cancelled_before_its_start_releases_its_session(system: Bench) -> None:
    await in_session(system)
    await system.run_of(await system.claimed()).cancel()
    assert await lease_holder(system, TALK) is None


async def overtaken(system: Bench) -> tuple[str, Attempt, str, Attempt]:
    """A queued response whose session lease expired, and another one that holds the lease now."""
    waiting = await in_session(system)
    system.clock.advance(WAITING_LEASE_MS / 1000 + 1)
    run = system.run_of(await system.claimed())
    other = await in_session(system)
    return waiting, run, other, system.run_of(await system.claimed(holder="other"))


async def test_turn_fails_when_another_turn_has_taken_its_session(system: Bench) -> None:
    waiting, run, other, between = await overtaken(system)
    await run.go()
    ended = whole(await system.edge.current(TENANT, waiting))
    assert ended["status"] == "failed"
    assert "operating on this conversation" in ended["error"]["message"]
    await between.go()
    assert (await system.store.describe_session(TENANT, TALK)).head_id == other


async def test_turn_fails_when_its_session_advanced_while_it_waited(system: Bench) -> None:
    waiting, run, other, between = await overtaken(system)
    await between.go()
    await run.go()
    ended = whole(await system.edge.current(TENANT, waiting))
    assert ended["status"] == "failed"
    assert "went on while the response was waiting" in ended["error"]["message"]
    session = await system.store.describe_session(TENANT, TALK)
    assert (session.head_id, session.lease) == (other, None)


async def losing_its_session(system: Bench) -> tuple[str, asyncio.Task[None]]:
    """A running response whose session lease was released."""
    system.timing = replace(TIMING, session_pace=RenewalPace(every_s=0.01, retry_s=0.01))
    system.engine.holds_at = 4
    running = await in_session(system)
    going = asyncio.create_task(system.run_next())
    await system.until(lambda: len(system.engine.told) == 4)
    lease = (await system.store.describe_session(TENANT, TALK)).lease
    assert lease is not None
    await system.store.release_session(TENANT, lease.fence)
    return running, going


async def test_session_lease_lost_in_mid_run_is_taken_again_and_the_turn_resumes(system: Bench) -> None:
    running, going = await losing_its_session(system)
    await system.until(lambda: system.engine.running == 0)
    system.engine.holds_at = None
    await going
    ended = whole(await system.edge.current(TENANT, running))
    assert (ended["status"], text_of(ended)) == ("completed", system.engine.text)
    assert system.engine.starts == [0, 4]
    assert (await system.store.describe_session(TENANT, TALK)).head_id == running


async def test_session_taken_by_another_holder_in_mid_run_stops_and_fails_the_turn(system: Bench) -> None:
    running, going = await losing_its_session(system)
    await system.store.acquire_session(TENANT, TALK, holder="other")
    await going
    assert system.engine.running == 0
    ended = whole(await system.edge.current(TENANT, running))
    assert (ended["status"], ended["error"]["cause"]["reason"]) == ("failed", "SESSION_LOCKED")
    session = await system.store.describe_session(TENANT, TALK)
    assert session.lease is not None
    assert (session.head_id, session.lease.holder) == (None, "other")


async def test_turn_in_a_deleted_conversation_fails(system: Bench) -> None:
    await system.store.create_conversation(TENANT, conversation_id=TALK)
    waiting = (await system.create(conversation=TALK)).id
    system.clock.advance(WAITING_LEASE_MS / 1000)
    await system.store.delete_conversation(TENANT, TALK)
    await system.run_next()
    ended = whole(await system.edge.current(TENANT, waiting))
    assert (ended["status"], ended["error"]["message"]) == ("failed", f"Conversation with id '{TALK}' not found.")
    assert system.engine.starts == []
    session = await system.store.describe_session(TENANT, TALK)
    assert (session.head_id, session.lease) == (None, None)


async def test_next_attempt_in_a_session_keeps_the_lease_and_resumes_the_output(system: Bench) -> None:
    first = await in_session(system)
    await system.run_next()
    system.engine.told.clear()
    second = await in_session(system, input="more")
    await interrupt(system, await system.claimed(), behind=5)
    assert await lease_holder(system, TALK) == second
    await system.run_next()
    log = await system.log(second)
    assert text_of(log[-1]["response"]) == system.engine.text
    assert system.engine.starts[-2:] == [0, 5]
    assert (await system.store.get(TENANT, second)).parent_id == first


async def test_the_log_does_not_quote_a_request_that_is_rejected_in_the_end(
    texts: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    translator = texts.translator
    assert isinstance(translator, TextTranslator)
    translator.fault = InvalidRequest("The server rejects 'canary'.", code="engine_refused")
    record = await texts.create()
    with caplog.at_level(logging.INFO):
        await texts.run_next()
    ended = whole(await texts.edge.current(TENANT, record.id))
    assert (ended["status"], ended["error"]["message"]) == ("failed", "The server rejects 'canary'.")
    assert "was cut off: InvalidRequest engine_refused" in caplog.text
    assert "canary" not in caplog.text


async def test_output_that_the_store_rejects_ends_the_response_without_it(system: Bench) -> None:
    record = await system.create()
    await system.run_of(await system.claimed(), store=without_room_for_output(system)).go()
    log = await system.log(record.id)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    ended = whole(await system.edge.current(TENANT, record.id))
    assert fold(log) == ended
    assert (ended["status"], ended["output"]) == ("failed", [])
    assert ended["error"]["message"].startswith("The output of the response is too large to be stored.")
    assert len(system.engine.starts) == 1


RESPONSE_ID = "resp_" + "a" * 48
TURN = Turn(RESPONSE_ID, 1_700_000_000, b'{"model":"m","temperature":0.1}', b'[{"id":"msg_1"}]', '["ä"]'.encode())


@pytest.fixture
async def store() -> AsyncIterator[StoreService]:
    backend = row_backend("memory://")
    await backend.open()
    yield StoreService(backend)
    await backend.close()


async def claimed(store: StoreService, tenant: str) -> Job:
    job = await store.claim_job(tenant, [DISPATCH_QUEUE], holder="test")
    assert job is not None
    return job


def queued(accepted: AcceptedTurn) -> TurnCommit:
    record = Record(RESPONSE_ID, Status.QUEUED, b"{}")
    return TurnCommit(record, precondition=Precondition(fence=accepted.fence), job=job_of(accepted))


async def test_job_of_an_unknown_tenant_is_claimed_once_though_committed_twice(store: StoreService) -> None:
    for _ in range(2):
        await store.commit_turn("acme", queued(AcceptedTurn("acme", TURN)))
    job = await claimed(store, DISPATCH_TENANT)
    assert (job.tenant, job.id) == ("acme", RESPONSE_ID)
    assert await store.claim_job(DISPATCH_TENANT, [DISPATCH_QUEUE], holder="other") is None


async def test_a_turn_that_waits_for_a_worker_keeps_its_session(store: StoreService) -> None:
    talk = "conv_" + RESPONSE_ID.removeprefix("resp_")
    start = await store.begin_turn("acme", TurnRequest(session_id=talk, holder=RESPONSE_ID))
    assert start.lease is not None
    await store.commit_turn("acme", queued(AcceptedTurn("acme", TURN, lease=start.lease)))
    lease = (await store.describe_session("acme", talk)).lease
    assert isinstance(lease, Lease)
    assert lease.holder == RESPONSE_ID
    assert lease.expires_at_ms >= start.lease.expires_at_ms + WAITING_LEASE_MS // 2


def test_a_stream_opens_with_created_and_queued() -> None:
    queued = {"id": RESPONSE_ID, "status": "queued"}
    start = opening(RESPONSE_ID, queued)
    told = events.decode(start.frames)
    assert (start.expected_position, start.count) == (0, OPENING_EVENTS)
    assert [(event["type"], event["sequence_number"]) for event in told] == [(events.CREATED, 0), (events.QUEUED, 1)]
    assert all(event["response"] == queued for event in told)
