from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import EngineFault, ModelNotFound, TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Batch, Receive, Resume, Translator, Turn
from antiphon_edge.turns.generation import REPLACEMENTS_MAX, Generation
from antiphon_edge.turns.log_state import LogState
from tests.support.pushed import generated
from tests.support.served_models import turn
from tests.support.thinking_edges import LosableTranslator, Sayer, losable
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
    return log_of(await Collected(losable(Sayer(*SAID)), turn("Hi")).run())


@pytest.mark.parametrize("lost_at", range(1, 20))
async def test_translator_lost_at_any_batch_leaves_the_events_unchanged(lost_at: int) -> None:
    translator = losable(Sayer(*SAID))
    translator.losses = [lost_at, 1]
    collected = Collected(translator, turn("Hi"))
    batches = await collected.run()
    assert log_of(batches) == await whole()
    before = batches[-1].first_sequence
    assert collected.generation.state.next_sequence == before


async def test_every_middle_batch_has_token_ids_and_the_last_closes_open_items() -> None:
    opening, *middle, last = await Collected(losable(Sayer(*SAID)), turn("Hi")).run()
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


async def test_generation_resumes_from_the_log_state_of_another_process() -> None:
    first = await Collected(losable(Sayer(*SAID)), turn("Hi")).run()
    for cut in range(1, len(first)):
        state = LogState(token_ids=array("q", (each for batch in first[:cut] for each in batch.token_ids)))
        for batch in first[:cut]:
            state.feed(batch)
        rest = await Collected(losable(Sayer(*SAID)), turn("Hi"), state=state).run()
        assert log_of([*first[:cut], *rest]) == log_of(first)


async def test_translator_is_replaced_only_up_to_the_limit() -> None:
    translator = losable(Sayer(*SAID))
    translator.losses = [3, *[1] * 9]
    with pytest.raises(TranslatorUnavailable):
        await Collected(translator, turn("Hi")).run()
    assert len(translator.turns) == REPLACEMENTS_MAX + 1


async def test_translator_lost_before_its_first_batch_is_not_retried() -> None:
    translator = losable(Sayer(*SAID))
    translator.losses = [0]
    with pytest.raises(TranslatorUnavailable):
        await Collected(translator, turn("Hi")).run()
    assert len(translator.turns) == 1


async def test_turn_for_an_unknown_model_raises_model_not_found() -> None:
    with pytest.raises(ModelNotFound):
        await Collected(losable(Sayer(*SAID)), turn("Hi", model="other")).run()


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
    translator: LosableTranslator = losable(Sayer(*SAID))
    with pytest.raises(EngineFault):
        await Collected(translator, turn("Hi"), state=said).run()
    assert translator.turns == []
