"""Resume of a turn by another translator: the events equal those of an uninterrupted turn."""

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
    controls = ALL_CONTROLS | {"guide", "text_guide", "logprobs"}
    return pipeline_of(reasoning_model(), given_turn, controls=controls, ids=ids, resume=resume, checkpoints=True)


def play(made: TurnPipeline, ids: Sequence[int], *, size: int = 1) -> list[Batch]:
    """All batches of a turn whose engine sends these ids, `size` at a time."""
    batches, _ = made.start()
    for start in range(0, len(ids), size):
        if not made.is_done:
            batches += made.receive([TokenChunk(ids[start : start + size])])
    return [*batches, *made.finish(completed_at=9)]


def log_of(batches: Sequence[Batch]) -> list[Object]:
    return [event for batch in batches for event in events.decode(batch.frames)]


def token_ids_of(batches: Sequence[Batch]) -> list[int]:
    return [token_id for batch in batches for token_id in batch.token_ids]


WHOLE = play(pipeline(), IDS)


@given(st.integers(2, len(WHOLE) - 1), st.integers(1, 7))
def test_turn_resumed_after_any_batch_equals_the_uninterrupted_turn(lost_at: int, size: int) -> None:
    before = WHOLE[:lost_at]
    ids = token_ids_of(before)
    next_sequence = before[-1].first_sequence + before[-1].count
    after = play(pipeline(Resume(next_sequence, ids)), IDS[len(ids) :], size=size)
    log = log_of([*before, *after])
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert fold(log) == fold(log_of(WHOLE))


def test_resumed_prompt_ends_with_the_known_token_ids() -> None:
    made = pipeline(Resume(2, IDS[:5]), max_output_tokens=100)
    batches, asked = made.start()
    assert batches == []
    first = pipeline(max_output_tokens=100).start()[1]
    assert list(ids_in(asked)) == [*ids_in(first), *IDS[:5]]
    assert asked.max_tokens == 95


def test_turn_resumed_with_all_token_ids_only_ends() -> None:
    made = pipeline(Resume(50, IDS))
    assert made.start()[0] == []
    assert made.is_done
    (*_, last) = log_of(made.finish(completed_at=9))
    assert last["response"]["output"] == fold(log_of(WHOLE))["output"]


def test_resumed_turn_does_not_repeat_its_first_events() -> None:
    assert log_of(play(pipeline(Resume(2)), IDS))[0]["sequence_number"] == 2


def test_token_ids_are_sent_only_with_checkpoints() -> None:
    made = pipeline_of(reasoning_model(), turn("Hi"), controls=ALL_CONTROLS, ids=DerivedIds("x"))
    assert token_ids_of(play(made, IDS)) == []
    assert token_ids_of(WHOLE) == IDS[: len(token_ids_of(WHOLE))]


@pytest.mark.parametrize("request_", [{"nvext": {"guided_regex": "a"}}, {"include": [OUTPUT_LOGPROBS]}])
def test_turn_with_a_guide_or_log_probabilities_is_not_resumable(request_: Object) -> None:
    assert token_ids_of(pipeline(**request_).start()[0]) == []
    with pytest.raises(InvalidRequest) as caught:
        pipeline(Resume(2, [1]), **request_)
    assert caught.value.field == "resume.token_ids"


def test_resume_of_a_text_engine_from_token_ids_is_rejected() -> None:
    with pytest.raises(InvalidRequest):
        pipeline_of(
            reasoning_model(),
            turn("Hi"),
            controls=ALL_CONTROLS,
            ids=DerivedIds("x"),
            level=Level.TEXT,
            resume=Resume(2, [1]),
        )


def test_resumed_forced_call_sends_its_beginning_once() -> None:
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
