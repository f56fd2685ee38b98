from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import EngineFault, ModelNotFound, ServiceFault, TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.event_logs import Step, StepKind
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final, Receive, Resume, Translator, Turn
from antiphon_core.retrying import TAKEOVER
from antiphon_edge.turns.generation import Generation, Interrupt, LogState, TranslatorStream
from tests.support.pushed import generated
from tests.support.served_models import turn
from tests.support.thinking_edges import LosableTranslator, PausableEngine, losable
from tests.support.translators import ScriptedTranslator

SAID = ("<think>", "Hm.", "</think>", "Ja. Nein.")


class Collected:
    """A generation, and the batches that it sent."""

    def __init__(self, translator: Translator, asked: Turn, **options: Any) -> None:
        self.batches: list[Batch] = []
        self.generation = Generation(translator, asked, self.batches.append, flow=Flow(), **options)

    async def run(self) -> list[Batch]:
        """Returns all batches, the terminal one at the end."""
        terminal = await self.generation.run()
        return [*self.batches, terminal]


def log_of(batches: Sequence[Batch]) -> list[Object]:
    return [event for batch in batches for event in events.decode(batch.frames)]


async def whole() -> list[Object]:
    return log_of(await Collected(losable(PausableEngine(*SAID)), turn("Hi")).run())


@pytest.mark.parametrize("lost_at", range(1, 20))
async def test_translator_lost_at_any_batch_leaves_the_events_unchanged(lost_at: int) -> None:
    translator = losable(PausableEngine(*SAID))
    translator.losses = [lost_at, 1]
    collected = Collected(translator, turn("Hi"))
    batches = await collected.run()
    assert log_of(batches) == await whole()
    before = batches[-1].first_sequence
    assert collected.generation.state.next_sequence == before


async def test_every_middle_batch_has_token_ids_and_the_last_closes_open_items() -> None:
    opening, *middle, last = await Collected(losable(PausableEngine(*SAID)), turn("Hi")).run()
    assert opening.token_ids == ()
    assert all(batch.token_ids for batch in middle)
    assert [event["type"] for event in log_of([last])] == [
        events.OUTPUT_TEXT_DONE,
        events.CONTENT_PART_DONE,
        events.OUTPUT_ITEM_DONE,
        events.COMPLETED,
    ]
    assert last.final is not None
    assert last.count == 4


async def test_state_behind_the_calls_of_a_round_can_be_continued() -> None:
    state = LogState()
    for batch in await Collected(losable(PausableEngine(*SAID)), turn("Hi")).run():
        state.feed(batch)
    facts = {"ids": len(state.token_ids), "items": len(state.output)}
    state.note_step(Step(1, StepKind.INTENT, data=dumps(facts)))
    assert (list(state.round_ids), state.can_be_continued()) == ([], True)


async def test_generation_resumes_from_the_log_state_of_another_process() -> None:
    first = await Collected(losable(PausableEngine(*SAID)), turn("Hi")).run()
    for cut in range(1, len(first)):
        state = LogState()
        for batch in first[:cut]:
            state.feed(batch)
        rest = await Collected(losable(PausableEngine(*SAID)), turn("Hi"), state=state).run()
        assert log_of([*first[:cut], *rest]) == log_of(first)


async def test_translator_is_replaced_only_up_to_the_limit() -> None:
    translator = losable(PausableEngine(*SAID))
    translator.losses = [3, *[1] * 9]
    with pytest.raises(TranslatorUnavailable):
        await Collected(translator, turn("Hi")).run()
    assert len(translator.turns) == TAKEOVER.attempts_max


async def test_translator_lost_before_its_first_batch_is_not_retried() -> None:
    translator = losable(PausableEngine(*SAID))
    translator.losses = [0]
    with pytest.raises(TranslatorUnavailable):
        await Collected(translator, turn("Hi")).run()
    assert len(translator.turns) == 1


async def test_turn_for_an_unknown_model_raises_model_not_found() -> None:
    with pytest.raises(ModelNotFound):
        await Collected(losable(PausableEngine(*SAID)), turn("Hi", model="other")).run()


class Blind:
    """A translator that sends no token ids. Its first stream is lost at the event number `lost_at`."""

    def __init__(self, lost_at: int) -> None:
        self.inner = ScriptedTranslator()
        self.lost_at = lost_at
        self.resumes: list[Resume | None] = []

    async def generate(self, turn: Turn, receive: Receive, *, resume: Resume | None = None, **_: Any) -> None:
        self.resumes.append(resume)
        async with aclosing(generated(self.inner, turn)) as batches:
            async for batch in batches:
                if batch.first_sequence == self.lost_at and len(self.resumes) == 1:
                    raise TranslatorUnavailable("Socket closed")
                if resume is None or batch.first_sequence >= resume.next_sequence:
                    receive(batch)


async def test_turn_without_token_ids_is_resumed_only_before_its_output() -> None:
    translator: Any = Blind(2)
    assert fold(log_of(await Collected(translator, turn("Hi")).run()))["status"] == "completed"
    assert translator.resumes == [None, Resume(2)]
    translator = Blind(3)
    with pytest.raises(TranslatorUnavailable):
        await Collected(translator, turn("Hi")).run()
    assert translator.resumes == [None]


async def test_output_without_token_ids_is_not_generated_again() -> None:
    said = LogState()
    async for batch in generated(ScriptedTranslator(), turn("Hi")):
        if batch.first_sequence < 4:
            said.feed(batch)
    translator: LosableTranslator = losable(PausableEngine(*SAID))
    with pytest.raises(EngineFault):
        await Collected(translator, turn("Hi"), state=said).run()
    assert translator.turns == []


FINAL = Final(Status.COMPLETED, b"{}", b"[]")


def frames(*numbers: int) -> bytes:
    return b"".join(events.encode({"type": "x", "item": {}, "sequence_number": number}) for number in numbers)


def batch_of(number: int, *ids: int, final: Final | None = None) -> Batch:
    return Batch(number, 1, frames(number), final, ids)


def sent_of(batches: Sequence[Batch], *, has_ids: bool = False) -> list[Batch]:
    """The batches that a stream of these sends."""
    stream = TranslatorStream(batches[0].first_sequence, has_ids=has_ids)
    sent = [stream.take(each) for each in batches]
    end = [] if stream.terminal is None else [stream.join(stream.terminal)]
    return [each for each in sent if each is not None] + end


def test_dense_batches_of_any_size_are_accepted() -> None:
    stream = TranslatorStream(7)
    for batch in (Batch(7, 1, frames(7)), Batch(8, 3, frames(8, 9, 10)), Batch(11, 2, frames(11, 12), FINAL)):
        stream.take(batch)


@pytest.mark.parametrize(
    "batch",
    [
        Batch(0, 1, frames(0)),
        Batch(2, 1, frames(2)),
        Batch(1, 0, b""),
        Batch(1, 2, frames(1)),
        Batch(1, 1, frames(1, 2)),
        Batch(1, 1, frames(1)[:-1]),
        Batch(1, 1, frames(0)),
        Batch(1, 1, frames(10)),
        Batch(1, 2, frames(1, 1)),
        Batch(1, 1, b"event: x\ndata: {}\n\n"),
        Batch(1, 1, b""),
    ],
    ids=range(11),
)
def test_batch_that_does_not_follow_or_is_not_what_it_says_is_a_service_fault(batch: Batch) -> None:
    stream = TranslatorStream()
    stream.take(Batch(0, 1, frames(0)))
    with pytest.raises(ServiceFault):
        stream.take(batch)


def test_nothing_follows_the_terminal_batch() -> None:
    stream = TranslatorStream()
    stream.take(Batch(0, 1, frames(0), FINAL))
    with pytest.raises(ServiceFault, match="after the terminal one"):
        stream.take(Batch(1, 1, frames(1)))


def test_batches_with_ids_and_streams_without_ids_are_left_alone() -> None:
    with_ids = [batch_of(0), batch_of(1, 7), batch_of(2, 8, 9), batch_of(3, final=FINAL)]
    assert sent_of(with_ids) == with_ids
    texts = [batch_of(0), batch_of(1), batch_of(2), batch_of(3, final=FINAL)]
    assert sent_of(texts) == texts


def test_events_without_ids_are_joined_to_the_ids_or_the_end_behind_them() -> None:
    given = [batch_of(1, 7), batch_of(2), batch_of(3), batch_of(4, 8), batch_of(5), batch_of(6, final=FINAL)]
    assert sent_of(given) == [
        batch_of(1, 7),
        Batch(2, 3, frames(2, 3, 4), None, (8,)),
        Batch(5, 2, frames(5, 6), FINAL),
    ]


def test_a_stream_whose_ids_were_sent_elsewhere_is_joined_from_the_start() -> None:
    assert sent_of([batch_of(2), batch_of(3, final=FINAL)], has_ids=True) == [Batch(2, 2, frames(2, 3), FINAL)]


def test_held_events_are_not_sent_when_the_stream_breaks() -> None:
    assert sent_of([batch_of(1, 7), batch_of(2)]) == [batch_of(1, 7)]


async def test_work_without_an_interrupt_returns_its_result() -> None:
    async def work() -> int:
        return 7

    assert await Interrupt().run(work()) == 7


async def test_interrupted_work_is_cancelled_and_raises_the_first_error() -> None:
    interrupt, stopped = Interrupt(), asyncio.Event()

    async def work() -> None:
        interrupt.break_off(ValueError("first"))
        interrupt.break_off(ValueError("second"))
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(ValueError, match="first"):
        await interrupt.run(work())
    assert stopped.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_work_that_begins_after_the_interrupt_fails_at_once() -> None:
    interrupt = Interrupt()
    interrupt.break_off(ValueError("over"))

    async def work() -> None:
        raise AssertionError("it must not begin")

    with pytest.raises(ValueError, match="over"):
        await interrupt.run(work())


async def test_a_timeout_of_the_work_itself_is_raised_as_it_is() -> None:
    async def work() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await Interrupt().run(work())


async def test_the_task_that_awaits_can_be_cancelled_by_others() -> None:
    awaiting = asyncio.create_task(Interrupt().run(asyncio.Event().wait()))
    await asyncio.sleep(0)
    awaiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await awaiting
