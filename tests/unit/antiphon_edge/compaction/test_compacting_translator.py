from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.clock import SystemClock
from antiphon_core.errors import (
    ContextLengthExceeded,
    EngineUnavailable,
    InvalidRequest,
    ModelNotFound,
    TranslatorUnavailable,
)
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.store import Record, Status
from antiphon_core.ports.translator import Batch, Final, Model, Receive, Resume, Turn
from antiphon_core.response import join
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.compaction.compacting_translator import CompactingTranslator, Insertion, is_triggered
from antiphon_edge.replay import frames_of
from antiphon_edge.sealed.compaction import CompactionSealer
from antiphon_edge.sealed.sealing import Sealer
from tests.support.pushed import generated
from tests.support.translators import ScriptedTranslator
from tests.support.waiting import until

USER: Object = {"id": "u", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
ANSWER: Object = {"id": "a", "type": "message", "role": "assistant", "content": []}
TRIGGER: Object = {"id": "x", "type": "compaction_trigger"}
LONG: Object = {
    "context_management": [{"type": "compaction", "compact_threshold": 3}]
}  # the scripted translator counts 3 tokens


def turn(*given: Object, **request: Any) -> Turn:
    return Turn("resp_1", 7, dumps({"model": "m"} | request), dumps([USER, ANSWER]), dumps(given or [USER]))


async def run(translator: ScriptedTranslator, turn: Turn, **options: Any) -> list[Batch]:
    batches: list[Batch] = []
    await CompactingTranslator(translator, clock=SystemClock()).generate(turn, batches.append, **options)
    return batches


def events_of(batches: Sequence[Batch]) -> list[Object]:
    """The events of the batches. Checks their sequence numbers against those of the batches."""
    found: list[Object] = []
    for batch in batches:
        decoded = events.decode(batch.frames)
        assert [event["sequence_number"] for event in decoded] == list(
            range(batch.first_sequence, batch.first_sequence + batch.count)
        )
        found += decoded
    return found


def types(turn: Turn) -> list[str]:
    return [item["type"] for item in [*loads(turn.history), *loads(turn.input)]]


async def test_a_long_turn_begins_with_a_compaction() -> None:
    translator = ScriptedTranslator()
    batches = await run(translator, turn(**LONG))
    log = events_of(batches)
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert [event["type"] for event in log[:6]] == [
        events.CREATED,
        events.IN_PROGRESS,
        events.OUTPUT_ITEM_ADDED,
        events.COMPACTING,
        events.OUTPUT_ITEM_DONE,
        events.OUTPUT_ITEM_ADDED,
    ]
    assert [event["output_index"] for event in log[2:6]] == [0, 0, 0, 1]
    final = batches[-1].final
    assert final is not None
    assert fold(log) == log[-1]["response"] == loads(join(final.body, final.output_items))
    assert [item["type"] for item in log[-1]["response"]["output"]] == ["compaction", "message"]
    assert log[-1]["response"]["usage"]["total_tokens"] == 2 * 5
    summing, answering = translator.turns
    assert types(summing) == ["message"] * 4
    assert types(answering) == ["message", "message", "compaction"]


@pytest.mark.parametrize("given", [turn(**LONG), turn(USER, TRIGGER)], ids=["begins with one", "is one"])
async def test_replay_of_a_compaction_has_the_events_of_its_stream(given: Turn) -> None:
    seal = CompactionSealer(Sealer(SealingKeys.ephemeral(), ttl_s=60, clock=SystemClock()), "t")
    batches = [seal(batch) for batch in await run(ScriptedTranslator(words=("Hello",)), given)]
    final = batches[-1].final
    assert final is not None
    record = Record("resp_1", final.status, final.body, output_items=final.output_items)
    assert events.decode(b"".join(frames_of(record))) == events_of(batches)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"context_management": []},
        {"context_management": [{"type": "compaction", "compact_threshold": 4}]},
        {"context_management": [{"type": "compaction"}]},  # 80 of 100 tokens
    ],
)
async def test_a_short_turn_is_passed_on_as_it_is(request_: Object) -> None:
    translator, asked = ScriptedTranslator(), turn(**request_)
    batches = await run(translator, asked)
    assert translator.turns == [asked]
    assert batches == [batch async for batch in generated(ScriptedTranslator(), asked)]


async def test_context_that_cannot_shrink_is_not_compacted_again() -> None:
    translator, item = ScriptedTranslator(), {"id": "cmp_1", "type": "compaction", "summary": []}
    await run(translator, turn(item, USER, **LONG))
    assert len(translator.turns) == 1


async def test_default_threshold_is_a_share_of_the_models_context() -> None:
    translator = ScriptedTranslator()

    async def count(turn: Turn) -> int:
        return 80

    translator.count_tokens = count  # type: ignore[method-assign]
    batches = await run(translator, turn(context_management=[{"type": "compaction"}]))
    assert len(events_of(batches)[-1]["response"]["output"]) == 2
    with pytest.raises(ModelNotFound):
        await run(translator, turn(context_management=[{"type": "compaction"}], model="other"))


@pytest.mark.parametrize(("rule", "turns"), [({}, 1), ({"compact_threshold": 3}, 2)])
async def test_context_of_unknown_length_has_no_default_threshold(rule: Object, turns: int) -> None:
    translator = ScriptedTranslator()

    async def models() -> tuple[Model, ...]:
        return (Model(id="m", root="m", context_length=0, ready=True, created_at=0),)

    translator.models = models  # type: ignore[method-assign]
    await run(translator, turn(context_management=[{"type": "compaction"} | rule]))
    assert len(translator.turns) == turns


async def test_resumed_turn_is_compacted_only_before_its_first_token() -> None:
    opening = await run(Opened(), turn(**LONG), resume=Resume(3))
    log = events_of(opening)
    assert log[0] == log[0] | {"type": events.OUTPUT_ITEM_ADDED, "sequence_number": 3}
    assert all(not batch.token_ids for batch in opening)
    translator = Opened()
    await run(translator, turn(**LONG), resume=Resume(3, (1, 2)))
    assert len(translator.turns) == 1


class Opened(ScriptedTranslator):
    """A translator that resumes behind the two opening events of a stream."""

    async def generate(self, turn: Turn, receive: Receive, **options: Any) -> None:
        is_summary = turn.response_id != "resp_1"

        def move(batch: Batch) -> None:
            if is_summary or batch.first_sequence >= 2:
                moved = [
                    event | {"sequence_number": event["sequence_number"] + 1} for event in events.decode(batch.frames)
                ]
                receive(Batch(batch.first_sequence + 1, 1, b"".join(map(events.encode, moved)), batch.final, (1,)))

        await super().generate(turn, move, **options)


async def test_a_trigger_makes_a_response_of_a_compaction_alone() -> None:
    translator = ScriptedTranslator()
    batches = await run(translator, turn(USER, TRIGGER))
    log = events_of(batches)
    assert [event["type"] for event in log] == [
        events.CREATED,
        events.IN_PROGRESS,
        events.OUTPUT_ITEM_ADDED,
        events.COMPACTING,
        events.OUTPUT_ITEM_DONE,
        events.COMPLETED,
    ]
    assert fold(log) == log[-1]["response"]
    assert [item["type"] for item in log[-1]["response"]["output"]] == ["compaction"]
    assert len(translator.turns) == 1
    resumed = events_of(await run(ScriptedTranslator(), turn(USER, TRIGGER), resume=Resume(3)))
    assert [event["sequence_number"] for event in resumed] == [3, 4, 5, 6]


def test_trigger_before_other_input_is_rejected() -> None:
    assert is_triggered(turn(USER, TRIGGER))
    assert not is_triggered(turn(USER))
    with pytest.raises(InvalidRequest) as raised:
        is_triggered(turn(TRIGGER, USER))
    assert (raised.value.field, raised.value.code) == ("input[0]", "invalid_value")


async def test_error_of_the_summary_is_raised_before_the_first_event() -> None:
    with pytest.raises(EngineUnavailable):
        await run(ScriptedTranslator(fault=EngineUnavailable("gone")), turn(**LONG))


async def test_error_after_a_summary_has_the_usage_of_the_summary() -> None:
    class Breaking(ScriptedTranslator):
        async def generate(self, turn: Turn, receive: Receive, **options: Any) -> None:
            if turn.response_id == "resp_1":
                raise EngineUnavailable("gone")
            await super().generate(turn, receive, **options)

    with pytest.raises(EngineUnavailable) as raised:
        await run(Breaking(), turn(**LONG))
    assert raised.value.usage is not None
    assert raised.value.usage["total_tokens"] == 5


async def test_a_response_that_fails_behind_its_compaction_has_the_usage_of_the_summary() -> None:
    class Failing(ScriptedTranslator):
        async def generate(self, turn: Turn, receive: Receive, **options: Any) -> None:
            if turn.response_id != "resp_1":
                await super().generate(turn, receive, **options)
                return
            born = response.skeleton({"model": "m"}, response_id="resp_1", created_at=7)
            ended = response.fail(born, EngineUnavailable("gone"))
            frames = events.encode({"type": events.FAILED, "sequence_number": 0, "response": ended})
            body, output_items = response.split(ended)
            receive(Batch(0, 1, frames, Final(Status.FAILED, body, output_items)))

    (*_, last) = await run(Failing(), turn(**LONG))
    (*_, failed) = events_of([last])
    assert last.final is not None
    assert failed["response"]["usage"]["total_tokens"] == loads(last.final.body)["usage"]["total_tokens"] == 5


class Answering(ScriptedTranslator):
    """A translator whose summaries are short and succeed, whatever its answers are."""

    async def generate(self, turn: Turn, receive: Receive, **options: Any) -> None:
        if turn.response_id == "resp_1":
            await super().generate(turn, receive, **options)
        else:
            await ScriptedTranslator().generate(turn, receive, **options)


LONG_WORDS = ("a", "b" * 2 * INLINE_BYTES_MAX, "c")


@pytest.mark.parametrize("fault", [None, EngineUnavailable("gone")])
async def test_large_batches_behind_a_compaction_are_changed_in_a_thread_and_sent_in_order(
    fault: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[tuple[bool, threading.Thread]] = []
    change = Insertion.__call__

    def noting(insertion: Insertion, batch: Batch) -> Batch:
        changed.append((len(batch.frames) > INLINE_BYTES_MAX, threading.current_thread()))
        return change(insertion, batch)

    monkeypatch.setattr(Insertion, "__call__", noting)
    batches: list[Batch] = []
    translator = CompactingTranslator(Answering(LONG_WORDS, fault=fault), clock=SystemClock())
    with pytest.raises(EngineUnavailable) if fault else nullcontext():
        await translator.generate(turn(**LONG), batches.append)
    log = events_of(batches)
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert [event["delta"] for event in log if "delta" in event] == list(LONG_WORDS)
    assert (batches[-1].final is None) is (fault is not None)
    assert {thread is threading.main_thread() for is_large, thread in changed if is_large} == {False}
    assert changed[0] == (False, threading.main_thread())


async def test_cancelled_turn_passes_no_more_batches_behind_its_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, may_end = threading.Event(), threading.Event()
    change = Insertion.__call__

    def blocking(insertion: Insertion, batch: Batch) -> Batch:
        if len(batch.frames) > INLINE_BYTES_MAX:
            has_begun.set()
            may_end.wait()
        return change(insertion, batch)

    monkeypatch.setattr(Insertion, "__call__", blocking)
    batches: list[Batch] = []
    translator = CompactingTranslator(Answering(LONG_WORDS, hang=True), clock=SystemClock())
    running = asyncio.create_task(translator.generate(turn(**LONG), batches.append))
    await until(has_begun.is_set, "the large batch")
    sent = len(batches)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    may_end.set()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "the end of all tasks")
    assert len(batches) == sent


async def test_other_calls_are_passed_to_the_inner_translator() -> None:
    inner = ScriptedTranslator(unready=TranslatorUnavailable("no"))
    translator = CompactingTranslator(inner, clock=SystemClock())
    assert await translator.count_tokens(turn()) == 3
    assert [model.id for model in await translator.models()] == ["m"]
    with pytest.raises(TranslatorUnavailable):
        await translator.ready()


async def test_a_turn_that_is_too_long_to_be_counted_is_compacted() -> None:
    class Uncounting(ScriptedTranslator):
        async def count_tokens(self, turn: Turn) -> int:
            raise ContextLengthExceeded.of(input_tokens=9, context_length=8, is_floor=True)

    log = events_of(await run(Uncounting(), turn(**LONG)))
    assert log[2]["item"]["type"] == "compaction"


@pytest.mark.parametrize(
    "rejected", [turn(TRIGGER, USER), replace(turn(TRIGGER), history=b"[]")], ids=["not last", "nothing to compact"]
)
async def test_a_compaction_that_would_be_rejected_is_not_counted(rejected: Turn) -> None:
    translator = CompactingTranslator(ScriptedTranslator(), clock=SystemClock())
    for ask in (translator.count_tokens, translator.check):
        with pytest.raises(InvalidRequest):
            await ask(rejected)
    assert await translator.count_tokens(turn(USER, TRIGGER)) == 3


async def test_check_of_a_compaction_checks_the_turn_of_its_summary() -> None:
    class Checking(ScriptedTranslator):
        async def check(self, turn: Turn) -> None:
            self.turns.append(turn)

    inner, summing, answering = Checking(), turn(USER, TRIGGER, top_logprobs=5), turn(top_logprobs=5, **LONG)
    for given in (summing, answering):
        await CompactingTranslator(inner, clock=SystemClock()).check(given)
    assert ["top_logprobs" in loads(each.request) for each in inner.turns] == [False, True]
    assert inner.turns[1] == answering


async def test_check_of_a_turn_that_cannot_be_counted_for_its_compaction_is_rejected() -> None:
    class Uncounting(ScriptedTranslator):
        async def count_tokens(self, turn: Turn) -> int:
            raise InvalidRequest("no tokenizer")

    translator = CompactingTranslator(Uncounting(), clock=SystemClock())
    await translator.check(turn())
    with pytest.raises(InvalidRequest, match="no tokenizer"):
        await translator.check(turn(**LONG))
