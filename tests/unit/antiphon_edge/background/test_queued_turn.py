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
from antiphon_core.ports.jobs import Job, JobOutcome
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Receive, Resume, Translator, Turn
from antiphon_edge.background import queueing
from antiphon_edge.background.queued_turn import Postponed
from antiphon_edge.turns.lease_keeper import RenewalPace
from antiphon_edge.turns.terminal_batches import failure
from antiphon_store.rows.model import Kind
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
from tests.support.translators import ScriptedTranslator


@pytest.fixture
async def shop(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    hasten(monkeypatch)
    async with bench() as made:
        yield made


async def interrupt(shop: Bench, job: Job, *, behind: int) -> None:
    """An attempt that ends behind so many ids, as a worker's does that hands it on."""
    shop.engine.holds_at = behind
    run = shop.run_of(job)
    going = asyncio.create_task(run.go())
    await shop.until(lambda: len(shop.engine.told) >= behind)
    await shop.logged(job.id, ids=behind)
    going.cancel()
    await asyncio.wait([going])
    await shop.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    shop.engine.holds_at = None


async def test_a_whole_run(shop: Bench) -> None:
    record = await shop.create()
    await shop.run_next()
    log = await shop.log(record.id)
    opening = [(event["type"], event["response"]["status"]) for event in log[:3]]
    assert opening == [
        (events.CREATED, "queued"),
        (events.QUEUED, "queued"),
        (events.IN_PROGRESS, "in_progress"),
    ]
    ended = whole(await shop.edge.current(TENANT, record.id))
    assert fold(log) == log[-1]["response"] == ended
    assert (ended["status"], text_of(ended)) == ("completed", shop.engine.text)


async def test_the_record_says_in_progress_while_it_runs(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.holds_at = 3
    going = asyncio.create_task(shop.run_of(await shop.claimed()).go())
    await shop.until(lambda: len(shop.engine.told) == 3)
    assert (await shop.edge.current(TENANT, record.id)).status is Status.IN_PROGRESS
    going.cancel()
    await asyncio.wait([going])


@pytest.mark.parametrize("cuts", [[1], [7], [2, 9, 10]])
async def test_another_attempt_goes_on_behind_the_ids_of_the_last(shop: Bench, cuts: list[int]) -> None:
    whole_run = await shop.create()
    await shop.run_next()
    expected = await shop.log(whole_run.id)
    shop.engine.starts.clear()
    shop.engine.told.clear()
    record = await shop.create()
    for cut in cuts:
        await interrupt(shop, await shop.claimed(), behind=cut)
    await shop.run_next()
    log = await shop.log(record.id)
    assert shop.engine.starts == [0, *cuts]
    assert shop.engine.told == list(range(len(shop.engine.ids)))
    assert [(event["type"], event.get("delta")) for event in log] == [
        (event["type"], event.get("delta")) for event in expected
    ]
    ended = whole(await shop.edge.current(TENANT, record.id))
    assert fold(log) == log[-1]["response"] == ended
    assert text_of(ended) == shop.engine.text
    assert ended["usage"]["output_tokens"] == expected[-1]["response"]["usage"]["output_tokens"]


async def test_a_death_between_the_last_word_and_the_commit_tells_nothing_twice(shop: Bench) -> None:
    record = await shop.create()
    job, mortal = await shop.claimed(), shop.new_store()

    async def die() -> None:
        mortal.lost = True

    mortal.before["commit_turn"] = die
    run = shop.run_of(job, store=mortal)
    with pytest.raises(StoreUnavailable):
        await run.go()
    await shop.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    await shop.run_next()
    log = await shop.log(record.id)
    kinds = [event["type"] for event in log]
    assert kinds.count(events.OUTPUT_TEXT_DONE) == kinds.count(events.OUTPUT_ITEM_DONE) == 1
    assert fold(log) == log[-1]["response"] == whole(await shop.edge.current(TENANT, record.id))
    assert shop.engine.starts == [0, len(shop.engine.ids)]


async def test_an_attempt_after_the_end_changes_nothing(shop: Bench) -> None:
    record = await shop.create()
    job = await shop.claimed()
    await shop.run_of(job).go()
    before = await shop.frames(record.id)
    again = shop.run_of(job)
    await again.go()
    await again.cancel()
    assert await shop.frames(record.id) == before
    assert shop.engine.starts == [0]


# ---- Engines of texts ----


@pytest.fixture
async def texts(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A translator that tells no ids."""
    hasten(monkeypatch)
    async with bench(TextTranslator()) as made:
        yield made


async def test_a_text_that_was_begun_cannot_be_gone_on_with_and_says_so(texts: Bench) -> None:
    translator = texts.translator
    assert isinstance(translator, TextTranslator)
    translator.hang = True
    record = await texts.create()
    job = await texts.claimed()
    run = texts.run_of(job)
    going = asyncio.create_task(run.go())
    await texts.logged(record.id, numbers=7)  # with its words
    going.cancel()
    await asyncio.wait([going])
    await texts.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    await texts.run_next()
    log = await texts.log(record.id)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert "cannot continue output that is unfinished" in log[-1]["response"]["error"]["message"]
    assert fold(log) == whole(await texts.edge.current(TENANT, record.id))
    assert len(translator.turns) == 1


async def test_a_text_of_which_nothing_was_told_is_begun_again(texts: Bench) -> None:
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


async def test_a_text_whose_translator_is_lost_fails_at_once_with_the_reason(texts: Bench) -> None:
    translator = texts.translator
    assert isinstance(translator, TextTranslator)
    translator.fault = TranslatorUnavailable("Socket closed")
    record = await texts.create()
    await texts.run_next()
    ended = whole(await texts.edge.current(TENANT, record.id))
    assert (ended["status"], ended["error"]["message"]) == ("failed", "Socket closed")
    assert (text_of(ended), ended["output"][0]["status"]) == ("Hello there", "incomplete")


# ---- Translators and engines that are away ----


async def test_an_engine_that_is_away_is_waited_for(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.away = True
    going = asyncio.create_task(shop.run_next())
    await asyncio.sleep(0.02)
    shop.engine.away = False
    await going
    assert (await shop.edge.current(TENANT, record.id)).status is Status.COMPLETED


async def test_an_engine_that_stays_away_ends_the_turn_when_the_pauses_are_over(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.away = True
    await shop.run_next()
    ended = whole(await shop.edge.current(TENANT, record.id))
    assert (ended["status"], ended["error"]["message"]) == ("failed", "The storyteller is away.")


async def test_an_engine_that_is_away_costs_no_attempt(shop: Bench) -> None:
    await shop.create()
    shop.engine.away = True
    job = await shop.claimed()
    with pytest.raises(Postponed) as caught:
        await shop.run_of(job).go()
    assert (caught.value.counts, caught.value.pause_s > 0) == (False, True)
    await shop.store.settle_job(TENANT, job.fence, JobOutcome.POSTPONED)
    again = await shop.claimed()
    assert again.max_attempts - again.attempt == job.max_attempts - job.attempt


async def test_attempts_that_only_waited_make_no_pause_longer(shop: Bench) -> None:
    await shop.create()
    shop.engine.away = True
    for _ in range(5):
        await shop.store.settle_job(TENANT, (await shop.claimed()).fence, JobOutcome.WAITED)
    with pytest.raises(Postponed) as caught:
        await shop.run_of(await shop.claimed()).go()
    assert caught.value.pause_s <= shop.timing.engine_retry.first_s


async def test_a_postponed_turn_keeps_its_session(shop: Bench) -> None:
    waiting = await in_session(shop)
    shop.engine.away = True
    with pytest.raises(Postponed):
        await shop.run_of(await shop.claimed()).go()
    lease = (await shop.store.describe_session(TENANT, TALK)).lease
    assert lease is not None
    assert lease.holder == waiting
    assert lease.expires_at_ms - shop.clock.now_ms() > queueing.WAITING_LEASE_MS - 60_000


async def test_an_engine_that_breaks_down_in_mid_run_is_gone_on_with_when_it_is_back(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.dies_behind = 4
    going = asyncio.create_task(shop.run_next())
    await shop.until(lambda: len(shop.engine.told) == 4)
    shop.engine.dies_behind, shop.engine.away = None, True
    await asyncio.sleep(0.02)
    assert (await shop.edge.current(TENANT, record.id)).status is Status.IN_PROGRESS
    shop.engine.away = False
    await going
    log = await shop.log(record.id)
    assert events.ERROR not in [event["type"] for event in log]
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert fold(log) == whole(await shop.edge.current(TENANT, record.id))
    assert text_of(log[-1]["response"]) == shop.engine.text
    assert shop.engine.starts == [0, 4]
    assert shop.engine.told == list(range(len(shop.engine.ids)))


async def test_an_engine_that_breaks_down_before_its_first_word_leaves_no_trace(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.dies_behind = 0
    going = asyncio.create_task(shop.run_next())
    await shop.until(lambda: len(shop.engine.starts) == 2)
    shop.engine.dies_behind = None
    await going
    log = await shop.log(record.id)
    assert events.ERROR not in [event["type"] for event in log]
    assert fold(log) == whole(await shop.edge.current(TENANT, record.id))
    assert text_of(log[-1]["response"]) == shop.engine.text


async def test_what_breaks_down_again_and_again_over_one_response_ends_it(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.dies_behind = 2
    await shop.run_next()
    ended = whole(await shop.edge.current(TENANT, record.id))
    assert (ended["status"], ended["error"]["message"]) == ("failed", "The storyteller broke down.")
    assert shop.engine.starts == [2 * number for number in range(queueing.JOB_ATTEMPTS)]
    assert fold(await shop.log(record.id)) == ended


class BreakingTranslator(TextTranslator):
    """Its engine breaks down behind so many batches, once for each number."""

    def __init__(self, *breaks: int) -> None:
        super().__init__()
        self.breaks = list(breaks)

    async def _play(self, turn: Turn, asked: Object) -> AsyncGenerator[Batch, None]:
        left = self.breaks.pop(0) if self.breaks else None
        said = Fold()
        body = response.skeleton(asked, response_id=turn.response_id, created_at=turn.created_at)
        body["usage"] = response.usage(input_tokens=3, output_tokens=2)
        said.feed(first_sequence=2, count=1, frames=events.encode({"type": events.CREATED, "response": body}))
        async for batch in super()._play(turn, asked):
            if left == 0:
                yield failure(said, EngineUnavailable("The engine broke down."))
                return
            said.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
            left = None if left is None else left - 1
            yield batch


@pytest.mark.parametrize(("behind", "status"), [(0, "completed"), (2, "failed")])
async def test_a_text_whose_engine_breaks_down_begins_again_if_nothing_was_told(
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
    """Loses its first streams behind some ids."""

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


async def test_translators_that_die_in_mid_stream_are_replaced(shop: Bench) -> None:
    shop.translator = LosingTranslator(shop.translator, losses=4)
    record = await shop.create()
    await shop.run_next()
    log = await shop.log(record.id)
    assert fold(log) == whole(await shop.edge.current(TENANT, record.id))
    assert text_of(log[-1]["response"]) == shop.engine.text
    assert len(shop.engine.starts) == 5


# ---- Cancelled, deleted, somebody else's ----


async def test_cancelling_keeps_what_was_said(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.holds_at = 4
    run = shop.run_of(await shop.claimed())
    going = asyncio.create_task(run.go())
    await shop.logged(record.id, ids=4)
    run.break_off()
    await going
    assert shop.engine.running == 0
    log = await shop.log(record.id)
    ended = whole(await shop.edge.current(TENANT, record.id))
    assert log[-1]["type"] == events.CANCELLED
    assert fold(log) == log[-1]["response"] == ended
    assert ended["status"] == "cancelled"
    assert shop.engine.text.startswith(text_of(ended))
    assert text_of(ended)


async def test_cancelling_before_anything_was_read(shop: Bench) -> None:
    record = await shop.create()
    await shop.run_of(await shop.claimed()).cancel()
    log = await shop.log(record.id)
    assert [event["type"] for event in log] == [events.CREATED, events.QUEUED, events.CANCELLED]
    assert fold(log) == whole(await shop.edge.current(TENANT, record.id))


async def test_a_deleted_response_is_not_run_and_its_followers_are_told(shop: Bench) -> None:
    record = await shop.create()
    job = await shop.claimed()
    await shop.store.delete(TENANT, record.id)
    await shop.run_of(job).go()
    assert shop.engine.starts == []
    stream = shop.edge._follower.follow(TENANT, record.id)
    log = [event async for batch in stream for event in events.decode(batch.frames)]
    assert log[-1]["type"] == events.CANCELLED


async def test_a_response_deleted_in_mid_run_ends_its_log(shop: Bench) -> None:
    record = await shop.create()
    shop.engine.holds_at = 4
    run = shop.run_of(await shop.claimed())
    going = asyncio.create_task(run.go())
    await shop.until(lambda: len(shop.engine.told) == 4)
    await shop.store.delete(TENANT, record.id)
    run.break_off()
    await going
    stream = shop.edge._follower.follow(TENANT, record.id)
    log = [event async for batch in stream for event in events.decode(batch.frames)]
    assert (log[-1]["type"], log[-1]["response"]["status"]) == (events.CANCELLED, "cancelled")


async def test_one_whose_lease_is_lost_writes_nothing(shop: Bench) -> None:
    record = await shop.create()
    job = await shop.claimed()
    await shop.store.settle_job(TENANT, job.fence, JobOutcome.RETRY)
    successor = await shop.claimed(holder="another")
    with pytest.raises(StaleFence):
        await shop.run_of(job).go()
    with pytest.raises(StaleFence):
        await shop.run_of(job).cancel()
    await shop.run_of(successor).go()
    log = await shop.log(record.id)
    assert log[-1]["type"] == events.COMPLETED


async def test_a_log_that_was_forgotten_begins_anew(shop: Bench) -> None:
    record = await shop.create()
    await shop.backend.lose(TENANT, Kind.LOG, record.id)
    await shop.run_next()
    log = await shop.log(record.id)
    assert [event["type"] for event in log[:2]] == [events.CREATED, events.QUEUED]
    assert fold(log) == whole(await shop.edge.current(TENANT, record.id))


# ---- Conversations and sessions ----


TALK = new_conversation_id(RandomIds())  # all that happens in it is of one tree


async def lease_holder(shop: Bench, session_id: str) -> str | None:
    lease = (await shop.store.describe_session(TENANT, session_id)).lease
    return lease.holder if lease is not None else None


async def in_session(shop: Bench, **members: str) -> str:
    """A response that waits in the session."""
    return (await shop.edge.create(TENANT, background_request(**members), session_id=TALK)).id


async def test_in_a_session_it_has_the_lease_until_it_ends_and_becomes_the_head(shop: Bench) -> None:
    first = await in_session(shop)
    assert await lease_holder(shop, TALK) == first
    await shop.run_next()
    assert await lease_holder(shop, TALK) is None
    assert (await shop.store.describe_session(TENANT, TALK)).head_id == first
    second = await in_session(shop, input="and then?")
    await shop.run_next()
    record = await shop.store.get(TENANT, second)
    assert (record.parent_id, record.session_id) == (first, TALK)


async def test_cancelled_before_it_began_it_leaves_the_session_to_others(shop: Bench) -> None:
    await in_session(shop)
    await shop.run_of(await shop.claimed()).cancel()
    assert await lease_holder(shop, TALK) is None


async def overtaken(shop: Bench) -> tuple[str, Attempt, str, Attempt]:
    """A response whose session's lease is over before anybody runs it, and one that has the lease now."""
    waiting = await in_session(shop)
    shop.clock.advance(queueing.WAITING_LEASE_MS / 1000 + 1)
    run = shop.run_of(await shop.claimed())
    other = await in_session(shop)
    return waiting, run, other, shop.run_of(await shop.claimed(holder="other"))


async def test_a_session_that_others_have_meanwhile_fails_it_and_stays_theirs(shop: Bench) -> None:
    waiting, run, other, between = await overtaken(shop)
    await run.go()
    ended = whole(await shop.edge.current(TENANT, waiting))
    assert ended["status"] == "failed"
    assert "operating on this conversation" in ended["error"]["message"]
    await between.go()
    assert (await shop.store.describe_session(TENANT, TALK)).head_id == other


async def test_a_session_that_went_on_fails_it_and_stays_free(shop: Bench) -> None:
    waiting, run, other, between = await overtaken(shop)
    await between.go()
    await run.go()
    ended = whole(await shop.edge.current(TENANT, waiting))
    assert ended["status"] == "failed"
    assert "went on while the response was waiting" in ended["error"]["message"]
    session = await shop.store.describe_session(TENANT, TALK)
    assert (session.head_id, session.lease) == (other, None)


async def losing_its_session(shop: Bench) -> tuple[str, asyncio.Task[None]]:
    """A response in mid-run whose lease of its session is gone."""
    shop.timing = replace(TIMING, session_pace=RenewalPace(every_s=0.01, retry_s=0.01))
    shop.engine.holds_at = 4
    running = await in_session(shop)
    going = asyncio.create_task(shop.run_next())
    await shop.until(lambda: len(shop.engine.told) == 4)
    lease = (await shop.store.describe_session(TENANT, TALK)).lease
    assert lease is not None
    await shop.store.release_session(TENANT, lease.fence)
    return running, going


async def test_a_session_that_is_lost_in_mid_run_is_taken_again_and_gone_on_in(shop: Bench) -> None:
    running, going = await losing_its_session(shop)
    await shop.until(lambda: shop.engine.running == 0)
    shop.engine.holds_at = None
    await going
    ended = whole(await shop.edge.current(TENANT, running))
    assert (ended["status"], text_of(ended)) == ("completed", shop.engine.text)
    assert shop.engine.starts == [0, 4]
    assert (await shop.store.describe_session(TENANT, TALK)).head_id == running


async def test_a_session_that_others_take_in_mid_run_stops_the_model(shop: Bench) -> None:
    running, going = await losing_its_session(shop)
    await shop.store.acquire_session(TENANT, TALK, holder="other")
    await going
    assert shop.engine.running == 0
    ended = whole(await shop.edge.current(TENANT, running))
    assert (ended["status"], ended["error"]["cause"]["reason"]) == ("failed", "SESSION_LOCKED")
    session = await shop.store.describe_session(TENANT, TALK)
    assert session.lease is not None
    assert (session.head_id, session.lease.holder) == (None, "other")


async def test_in_a_conversation_that_was_deleted_meanwhile_it_fails(shop: Bench) -> None:
    await shop.store.create_conversation(TENANT, conversation_id=TALK)
    waiting = (await shop.create(conversation=TALK)).id
    shop.clock.advance(queueing.WAITING_LEASE_MS / 1000)
    await shop.store.delete_conversation(TENANT, TALK)
    await shop.run_next()
    ended = whole(await shop.edge.current(TENANT, waiting))
    assert (ended["status"], ended["error"]["message"]) == ("failed", f"Conversation with id '{TALK}' not found.")
    assert shop.engine.starts == []
    session = await shop.store.describe_session(TENANT, TALK)
    assert (session.head_id, session.lease) == (None, None)


async def test_another_attempt_in_a_session_goes_on_where_the_first_one_was(shop: Bench) -> None:
    first = await in_session(shop)
    await shop.run_next()
    shop.engine.told.clear()
    second = await in_session(shop, input="more")
    await interrupt(shop, await shop.claimed(), behind=5)
    assert await lease_holder(shop, TALK) == second
    await shop.run_next()
    log = await shop.log(second)
    assert text_of(log[-1]["response"]) == shop.engine.text
    assert shop.engine.starts[-2:] == [0, 5]
    assert (await shop.store.get(TENANT, second)).parent_id == first


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


async def test_output_that_the_store_rejects_ends_the_response_without_it(shop: Bench) -> None:
    record = await shop.create()
    await shop.run_of(await shop.claimed(), store=without_room_for_output(shop)).go()
    log = await shop.log(record.id)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    ended = whole(await shop.edge.current(TENANT, record.id))
    assert fold(log) == ended
    assert (ended["status"], ended["output"]) == ("failed", [])
    assert ended["error"]["message"].startswith("The output of the response is too large to be stored.")
    assert len(shop.engine.starts) == 1
