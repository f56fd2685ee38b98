"""Guided answers: the guide begins behind the reasoning, and the client does not notice the second generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import EngineTimes
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import (
    EngineFacts,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Level,
    ReportedUsage,
    TextChunk,
    TokenChunk,
)
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from tests.support.pipelines import pipeline_of
from tests.support.prompts import ids_in, text_in
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, WEATHER, kinds, reasoning_model
from tests.support.served_models import turn
from tests.support.small_vocabulary import byte_tokenizer, ids_of

GUIDE = Guide(GuideKind.REGEX, "[0-9]+")
ASKED: dict[str, Any] = {"nvext": {"guided_regex": "[0-9]+"}}
THOUGHT = ("<think>", "Hm. So 7?", "</think>", "\n\n")
HARMONY = byte_tokenizer(
    "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"
)


class Play:
    """A turn whose generations are given one by one."""

    def __init__(self, model: ServedModel, level: Level = Level.TOKENS, **request: Any) -> None:
        self.tokenizer = model.tokenizer
        self.level = level
        self.requests: list[GenerationRequest] = []
        controls = ALL_CONTROLS | {"guide", "text_guide", "stop"}
        self.turn = pipeline_of(model, turn("Hi", **request), controls=controls, ids=SequentialIds(), level=level)
        self.batches, first = self.turn.start()
        self.requests.append(first)

    def say(self, *said: str, cuts: Sequence[int] = (), usage: ReportedUsage | None = None) -> GenerationRequest | None:
        """Gives a whole generation with this text. Returns the follow-up request."""
        whole: Any = ids_of(self.tokenizer, *said) if self.level is Level.TOKENS else "".join(said)
        edges = [0, *sorted(cut % max(len(whole), 1) for cut in cuts), len(whole)]
        for start, end in pairwise(edges):
            part = whole[start:end]
            chunk = TokenChunk(part) if self.level is Level.TOKENS else TextChunk(part)
            if not self.turn.is_done and part:
                self.batches += self.turn.receive([chunk])
        if not self.turn.is_done and usage is not None:
            self.batches += self.turn.receive([TextChunk(finish=FinishReason.STOP, usage=usage)])
        wanted = self.turn.follow_up()
        if wanted is not None:
            self.requests.append(wanted)
        return wanted

    def end(self) -> Object:
        self.batches += self.turn.finish(completed_at=9)
        log = [event for batch in self.batches for event in events.decode(batch.frames)]
        assert [event["sequence_number"] for event in log] == list(range(len(log)))
        folded = fold(log)
        assert folded == log[-1]["response"]
        return folded


def texts(response: Object) -> list[str]:
    return [part["text"] for item in response["output"] for part in item["content"]]


def thinking() -> ServedModel:
    return replace(reasoning_model(), can_reason=True)


def test_a_model_that_does_not_reason_is_guided_from_the_first_token() -> None:
    play = Play(replace(reasoning_model(), can_reason=False), **ASKED)
    assert play.requests[0].guide == GUIDE
    assert play.say("42") is None
    assert texts(play.end()) == ["42"]


def test_reasoning_that_the_prompt_closed_does_not_delay_the_guide() -> None:
    assert Play(thinking(), reasoning={"effort": "none"}, **ASKED).requests[0].guide == GUIDE


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
def test_the_guide_begins_where_the_reasoning_has_ended(level: Level) -> None:
    play = Play(thinking(), level, **ASKED)
    assert play.requests[0].guide is None
    again = play.say(*THOUGHT, "The answer is 7.")
    assert again is not None
    assert again.guide == GUIDE
    assert again.request_id != play.requests[0].request_id, (
        "the first generation may be stopped by its id while the second begins"
    )
    if level is Level.TOKENS:
        assert list(ids_in(again)) == [
            *ids_in(play.requests[0]),
            *ids_of(TOKENIZER, *THOUGHT),
        ]
    else:
        assert text_in(again) == text_in(play.requests[0]) + "".join(THOUGHT)
    assert play.say("7") is None
    response = play.end()
    assert kinds(response) == ["reasoning", "message"]
    assert texts(response) == ["Hm. So 7?", "7"]


def test_cached_tokens_and_times_are_those_of_the_first_generation() -> None:
    """The second one finds in the cache what the first one has just put there."""
    play = Play(thinking(), **ASKED)
    play.turn.receive([TokenChunk(facts=EngineFacts(3, 5, 7))])
    play.say(*THOUGHT, "The answer is 7.")
    play.turn.receive([TokenChunk(facts=EngineFacts(10**6, 1, 1))])
    play.say("7")
    play.end()
    assert play.turn.usage is not None
    assert (play.turn.usage.cached_tokens, play.turn.usage.times) == (3, EngineTimes(5, 7))


def test_second_generation_has_the_hint_of_the_cache_of_the_first() -> None:
    play = Play(thinking(), **ASKED)
    play.turn.receive([TokenChunk(placement="here")])
    again = play.say(*THOUGHT, "The answer is 7.")
    assert again is not None
    (hint,) = again.placement
    assert (hint.endpoint, hint.tokens) == ("here", len(ids_in(play.requests[0])))


@given(st.lists(st.integers(0, 10_000), max_size=8), st.sampled_from([Level.TOKENS, Level.TEXT]))
def test_cuts_of_the_first_generation_do_not_change_the_answer(cuts: list[int], level: Level) -> None:
    said = (*THOUGHT, " Wrong <b>")
    whole, cut = Play(thinking(), level, **ASKED), Play(thinking(), level, **ASKED)
    assert cut.say(*said, cuts=cuts) == whole.say(*said)
    whole.say("7")
    cut.say("7")
    assert cut.end() == whole.end()


def test_usage_does_not_count_discarded_tokens() -> None:
    play = Play(thinking(), **ASKED)
    play.say(*THOUGHT, "Forgotten.")
    play.say("77")
    usage = play.end()["usage"]
    thought = 1 + len("Hm. So 7?") + 1
    assert usage["input_tokens"] == len(ids_in(play.requests[0]))
    assert usage["output_tokens"] == thought + len("\n\n") + 2
    assert usage["output_tokens_details"]["reasoning_tokens"] == thought - 1


def test_usage_of_text_covers_both_generations() -> None:
    play = Play(thinking(), Level.TEXT, **ASKED)
    play.say(*THOUGHT, "Forgotten.")
    kept = len(TOKENIZER.encode("".join(THOUGHT)))
    play.say("77", usage=ReportedUsage(100 + kept, 2))
    usage = play.end()["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (100, kept + 2)


def test_guided_generation_has_the_remaining_tokens_as_limit() -> None:
    play = Play(thinking(), max_output_tokens=50, **ASKED)
    again = play.say(*THOUGHT, "So")
    assert again is not None
    assert again.max_tokens == 50 - len(ids_of(TOKENIZER, *THOUGHT))


def test_reasoning_that_uses_up_the_tokens_ends_the_turn() -> None:
    play = Play(thinking(), max_output_tokens=5, **ASKED)
    assert play.say(*THOUGHT, "So") is None
    response = play.end()
    assert (response["status"], kinds(response)) == ("incomplete", ["reasoning"])


@pytest.mark.parametrize("ends_itself", [True, False])
def test_reasoning_without_an_answer_is_followed_by_a_guided_generation(ends_itself: bool) -> None:
    play = Play(thinking(), **ASKED)
    again = play.say("<think>", "Hm.", "</think>", *(["<|im_end|>"] if ends_itself else []))
    assert again is not None
    assert END_ID not in ids_in(again)[len(ids_in(play.requests[0])) :]
    play.say("7")
    assert texts(play.end()) == ["Hm.", "7"]


def test_call_before_the_answer_needs_no_guided_generation() -> None:
    play = Play(thinking(), tools=[WEATHER], **ASKED)
    assert play.requests[0].guide is None
    assert play.say(*THOUGHT, *CALL) is None
    assert kinds(play.end()) == ["reasoning", "function_call"]


def test_with_tools_an_answer_instead_of_a_call_is_guided() -> None:
    play = Play(replace(reasoning_model(), can_reason=False), tools=[WEATHER], **ASKED)
    again = play.say("Sure!")
    assert again is not None
    assert ids_in(again) == tuple(ids_in(play.requests[0]))
    play.say("7")
    assert texts(play.end()) == ["7"]


def test_forced_call_is_guided_by_its_parameters_not_by_the_answer_guide() -> None:
    play = Play(thinking(), tools=[WEATHER], tool_choice="required", **ASKED)
    assert play.requests[0].guide == Guide(GuideKind.JSON_SCHEMA, '{"type":"object"}')
    assert play.say('{"city": "Rome"}') is None
    (call,) = play.end()["output"]
    assert (call["arguments"], call["status"]) == ('{"city": "Rome"}', "completed")


def test_stop_text_in_the_reasoning_ends_the_turn_only_with_stop_in_reasoning() -> None:
    play = Play(replace(thinking(), stop_in_reasoning=True), stop="So", **ASKED)
    assert play.say(*THOUGHT, "x") is None
    assert texts(play.end()) == ["Hm."]


def test_model_that_ends_behind_a_stop_text_in_its_reasoning_is_made_to_answer() -> None:
    play = Play(thinking(), stop="Hm", **ASKED)
    assert play.say(*THOUGHT) is not None


def harmony() -> ServedModel:
    (end,) = ids_of(HARMONY, "<|return|>")
    syntax = TokenSyntax(families.load("gpt_oss"), HARMONY)
    return replace(reasoning_model(), tokenizer=HARMONY, stop_ids=(end,), syntax=syntax, can_reason=True)


def test_harmony_is_guided_in_its_final_channel() -> None:
    play = Play(harmony(), **ASKED)
    opening = ("<|channel|>", "analysis", "<|message|>", "Hm.", "<|end|>", "<|start|>", "assistant")
    header = ("<|channel|>", "final", "<|message|>")
    again = play.say(*opening, *header, "The answer")
    assert again is not None
    assert list(ids_in(again)[len(ids_in(play.requests[0])) :]) == ids_of(HARMONY, *opening, *header)
    play.say("7")
    assert texts(play.end()) == ["Hm.", "7"]


def test_harmony_commentary_is_kept_and_not_guided() -> None:
    play = Play(harmony(), **ASKED)
    opening = ("<|channel|>", "commentary", "<|message|>", "I think.", "<|end|>", "<|start|>", "assistant")
    again = play.say(*opening, "<|channel|>", "final", "<|message|>", "No")
    assert again is not None
    play.say("7")
    response = play.end()
    assert texts(response) == ["I think.", "7"]
    assert response["output"][0]["phase"] == "commentary"


def test_chat_server_gets_the_guide_with_the_first_request() -> None:
    assert Play(thinking(), Level.CHAT, **ASKED).requests[0].guide == GUIDE
