from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import EngineFault, ModelNotFound, TranslatorUnavailable
from antiphon_core.fold import Fold, fold
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Batch, Resume, Turn
from antiphon_edge.turns.generation import REPLACEMENTS_MAX, Generation
from tests.support.served_models import turn
from tests.support.thinking_edges import LosableTranslator, Sayer, losable
from tests.support.translators import ScriptedTranslator

SAID = ("<think>", "Hm.", "</think>", "Ja. Nein.")


async def collect(generation: Generation) -> list[Batch]:
    return [batch async for batch in generation.batches()]


def log_of(batches: Sequence[Batch]) -> list[Object]:
    return [event for batch in batches for event in events.decode(batch.frames)]


async def whole() -> list[Object]:
    return log_of(await collect(Generation(losable(Sayer(*SAID)), turn("Hi"))))


@pytest.mark.parametrize("lost_at", range(1, 20))
async def test_a_translator_lost_at_any_batch_is_not_noticed(lost_at: int) -> None:
    translator = losable(Sayer(*SAID))
    translator.losses = [lost_at, 1]
    generation = Generation(translator, turn("Hi"))
    batches = await collect(generation)
    assert log_of(batches) == await whole()
    before = batches[-1].first_sequence
    assert generation.fold.next_sequence == before


async def test_every_batch_ends_where_its_ids_end_and_the_last_one_closes_what_is_open() -> None:
    opening, *middle, last = await collect(Generation(losable(Sayer(*SAID)), turn("Hi")))
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


async def test_what_another_process_said_is_gone_on_with() -> None:
    first = await collect(Generation(losable(Sayer(*SAID)), turn("Hi")))
    for cut in range(1, len(first)):
        so_far, token_ids = Fold(), [each for batch in first[:cut] for each in batch.token_ids]
        for batch in first[:cut]:
            so_far.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        rest = await collect(Generation(losable(Sayer(*SAID)), turn("Hi"), fold=so_far, token_ids=token_ids))
        assert log_of([*first[:cut], *rest]) == log_of(first)


async def test_the_translator_is_replaced_only_so_often() -> None:
    translator = losable(Sayer(*SAID))
    translator.losses = [3, *[1] * 9]
    with pytest.raises(TranslatorUnavailable):
        await collect(Generation(translator, turn("Hi")))
    assert len(translator.turns) == REPLACEMENTS_MAX + 1


async def test_a_translator_that_is_not_there_at_all_is_not_asked_again() -> None:
    translator = losable(Sayer(*SAID))
    translator.losses = [0]
    with pytest.raises(TranslatorUnavailable):
        await collect(Generation(translator, turn("Hi")))
    assert len(translator.turns) == 1


async def test_what_is_wrong_with_the_turn_is_raised() -> None:
    with pytest.raises(ModelNotFound):
        await collect(Generation(losable(Sayer(*SAID)), turn("Hi", model="other")))


class Blind:
    """A translator whose batches bring no ids; it is lost behind so many of them."""

    def __init__(self, lost_at: int) -> None:
        self.inner = ScriptedTranslator()
        self.lost_at = lost_at
        self.resumes: list[Resume | None] = []

    async def generate(self, turn: Turn, *, resume: Resume | None = None, **_: Any) -> AsyncGenerator[Batch, None]:
        self.resumes.append(resume)
        async for batch in self.inner.generate(turn):
            if batch.first_sequence == self.lost_at and len(self.resumes) == 1:
                raise TranslatorUnavailable("Socket closed")
            if resume is None or batch.first_sequence >= resume.next_sequence:
                yield batch


async def test_without_ids_a_turn_goes_on_only_as_long_as_it_said_nothing() -> None:
    translator: Any = Blind(2)
    assert fold(log_of(await collect(Generation(translator, turn("Hi")))))["status"] == "completed"
    assert translator.resumes == [None, Resume(2)]
    translator = Blind(3)
    with pytest.raises(TranslatorUnavailable):
        await collect(Generation(translator, turn("Hi")))
    assert translator.resumes == [None]


async def test_what_was_said_without_ids_is_not_begun_again() -> None:
    said = Fold()
    async for batch in ScriptedTranslator().generate(turn("Hi")):
        if batch.first_sequence < 4:
            said.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
    translator: LosableTranslator = losable(Sayer(*SAID))
    with pytest.raises(EngineFault):
        await collect(Generation(translator, turn("Hi"), fold=said))
    assert translator.turns == []
