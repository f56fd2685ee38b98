"""A turn that one translator began and another one ends: nobody who reads the stream can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_core.errors import InvalidRequest
from antiphon_core.fold import fold
from antiphon_core.ids import DerivedIds
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Batch, Resume
from antiphon_core.request.body import OUTPUT_LOGPROBS
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import Level, TokenChunk
from antiphon_translator.pipeline import TurnPipeline
from tests.support.pipelines import pipeline_of
from tests.support.prompts import ids_in
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, WEATHER, reasoning_model
from tests.support.served_models import RESPONSE_ID, turn
from tests.support.small_vocabulary import ids_of

SAID = ("<think>", "\nHm ü.\n", "</think>", "\n\n Ja.  <b>", *CALL, *CALL, " Ende. ")
IDS = [*ids_of(TOKENIZER, *SAID), END_ID]


def pipeline(resume: Resume | None = None, **request: Any) -> TurnPipeline:
    given_turn = turn("Hi", **({"tools": [WEATHER]} | request))
    ids = DerivedIds(RESPONSE_ID)
    controls = ALL_CONTROLS | {"guide", "logprobs"}
    return pipeline_of(reasoning_model(), given_turn, controls=controls, ids=ids, resume=resume, checkpoints=True)


def play(made: TurnPipeline, ids: Sequence[int], *, size: int = 1) -> list[Batch]:
    """Everything that a turn says when the engine says these ids, so many at a time."""
    batches, _ = made.start()
    for start in range(0, len(ids), size):
        if not made.done:
            batches += made.receive([TokenChunk(ids[start : start + size])])
    return [*batches, *made.finish(completed_at=9)]


def log_of(batches: Sequence[Batch]) -> list[Object]:
    return [event for batch in batches for event in events.decode(batch.frames)]


def told(batches: Sequence[Batch]) -> list[int]:
    return [token_id for batch in batches for token_id in batch.token_ids]


WHOLE = play(pipeline(), IDS)


@given(st.integers(2, len(WHOLE) - 1), st.integers(1, 7))
def test_it_goes_on_from_any_batch_as_if_nothing_had_happened(lost_at: int, size: int) -> None:
    before = WHOLE[:lost_at]
    ids = told(before)
    next_sequence = before[-1].first_sequence + before[-1].count
    after = play(pipeline(Resume(next_sequence, ids)), IDS[len(ids) :], size=size)
    log = log_of([*before, *after])
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert fold(log) == fold(log_of(WHOLE))


def test_the_engine_goes_on_behind_the_ids() -> None:
    made = pipeline(Resume(2, IDS[:5]), max_output_tokens=100)
    batches, asked = made.start()
    assert batches == []
    first = pipeline(max_output_tokens=100).start()[1]
    assert list(ids_in(asked)) == [*ids_in(first), *IDS[:5]]
    assert asked.max_tokens == 95


def test_a_turn_that_only_lacked_its_end_is_ended() -> None:
    made = pipeline(Resume(50, IDS))
    assert made.start()[0] == []
    assert made.done
    (*_, last) = log_of(made.finish(completed_at=9))
    assert last["response"]["output"] == fold(log_of(WHOLE))["output"]


def test_the_first_events_are_not_sent_twice() -> None:
    assert log_of(play(pipeline(Resume(2)), IDS))[0]["sequence_number"] == 2


def test_ids_are_told_only_if_asked_for() -> None:
    made = pipeline_of(reasoning_model(), turn("Hi"), controls=ALL_CONTROLS, ids=DerivedIds("x"))
    assert told(play(made, IDS)) == []
    assert told(WHOLE) == IDS[: len(told(WHOLE))]


@pytest.mark.parametrize("request_", [{"nvext": {"guided_regex": "a"}}, {"include": [OUTPUT_LOGPROBS]}])
def test_with_a_guide_or_log_probabilities_no_ids_are_told_and_none_are_taken(request_: Object) -> None:
    assert told(pipeline(**request_).start()[0]) == []
    with pytest.raises(InvalidRequest) as caught:
        pipeline(Resume(2, [1]), **request_)
    assert caught.value.field == "resume.token_ids"


def test_what_comes_as_text_cannot_be_resumed_from_ids() -> None:
    with pytest.raises(InvalidRequest):
        pipeline_of(
            reasoning_model(),
            turn("Hi"),
            controls=ALL_CONTROLS,
            ids=DerivedIds("x"),
            level=Level.TEXT,
            resume=Resume(2, [1]),
        )


def test_what_a_forced_call_begins_with_is_sent_once() -> None:
    forced: dict[str, Any] = {"tool_choice": "required", "tools": [WEATHER | {"strict": False}]}

    def calling(resume: Resume | None = None) -> TurnPipeline:
        return pipeline_of(
            reasoning_model(), turn("Hi", **forced), controls=ALL_CONTROLS, ids=DerivedIds(RESPONSE_ID), resume=resume
        )

    ids = ids_of(TOKENIZER, '{"city": "Rome"}}', "</tool_call>")
    whole = log_of(play(calling(), ids))
    again = log_of(play(calling(Resume(2)), ids))
    assert [event["type"] for event in again] == [event["type"] for event in whole[2:]]
    assert again[-1] == whole[-1]
