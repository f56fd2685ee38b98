"""Turns with log probabilities and with stop texts, a guide or a forced call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object
from antiphon_translator.generation import EngineChunk, Level, TextChunk, TokenChunk
from antiphon_translator.models.served_model import ServedModel
from tests.support.pipelines import pipeline_of
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, WEATHER, kinds, reasoning_model
from tests.support.served_models import turn
from tests.support.small_vocabulary import ids_of
from tests.unit.antiphon_translator.output.test_guided_output import ASKED, THOUGHT, harmony, thinking
from tests.unit.antiphon_translator.test_pipeline_logprobs import (
    CONTROLS,
    CUTS,
    INCLUDE,
    PIECES,
    check,
    ids_in,
    of_pieces,
    parts,
    pieces_at,
    play,
    scored,
    shown,
    texts,
)


def written(log: Sequence[Object]) -> list[tuple[str, str]]:
    """Each part of a message, with the text of its tokens."""
    return [(part["text"], shown(part["logprobs"])) for part in parts(log)]


# ---- stop texts ----


@pytest.mark.parametrize("cuts", [(), range(99)])
def test_tokens_of_a_stop_text_are_left_out(cuts: Sequence[int]) -> None:
    log = play(ids_of(TOKENIZER, "<think>", "Hm.", "</think>", "Ja ☃. STOP, nein"), cuts, stop="STOP")
    assert written(log) == [("Ja ☃. ",) * 2]


def test_unfinished_stop_text_is_shown_with_its_tokens() -> None:
    log = play(ids_of(TOKENIZER, "Ja. STO"), range(99), stop=["STOP", "OPS"])
    assert written(log) == [("Ja. STO",) * 2]
    assert all(text == wrote for text, wrote in texts(log))


def test_token_that_also_begins_the_stop_text_is_listed_whole() -> None:
    served = of_pieces("plain", "▁Yes", ".ST", "OP", "!")
    assert written(play([257, 258, 259, 260], served=served, stop="STOP")) == [(" Yes.", " Yes.ST")]


def test_control_token_cut_by_a_stop_text_is_listed_whole() -> None:
    log = play(ids_of(TOKENIZER, "<|im_start|>", "b"), stop="a")
    assert written(log) == [("<|im_st", "<|im_start|>")]


@given(PIECES, CUTS, st.sampled_from(["a ", "\n\n", "ü", "</think>", "<|im_start|>", '"name"']))
def test_cut_with_stop_texts_does_not_change_the_output(pieces: list[str | bytes], cuts: list[int], stop: str) -> None:
    more: Object = {"tools": [WEATHER], "stop": ["never", stop]}
    log = play(ids_in(pieces), cuts, **more)
    assert log[-1]["response"]["output"] == play(ids_in(pieces), **more)[-1]["response"]["output"]
    assert all(text == wrote for text, wrote in texts(log))


# ---- guides ----


class Play:
    """A guided turn with log probabilities, whose generations are given one by one."""

    def __init__(self, served: ServedModel, level: Level = Level.TOKENS, **request: Any) -> None:
        self._tokenizer = served.tokenizer
        self._level = level
        given_turn = turn("Hi", include=INCLUDE, **ASKED, **request)
        controls = CONTROLS | {"guide", "text_guide", "stop"}
        self._turn = pipeline_of(served, given_turn, controls=controls, ids=SequentialIds(), level=level)
        self._batches, first = self._turn.start()
        self.requests = [first]

    def say(self, *said: str, cuts: Sequence[int] = ()) -> None:
        """Gives a whole generation with this text and records the follow-up request."""
        ids = ids_of(self._tokenizer, *said)
        for start, end in pieces_at(cuts, len(ids)):
            if not self._turn.is_done:
                self._batches += self._turn.receive([self._chunk(ids, start, end)])
        wanted = self._turn.follow_up()
        if wanted is not None:
            self.requests.append(wanted)

    def _chunk(self, ids: Sequence[int], start: int, end: int) -> EngineChunk:
        logprobs = scored(ids)[start:end]
        if self._level is Level.TOKENS:
            return TokenChunk(ids[start:end], logprobs=logprobs)
        return TextChunk(self._text(ids[:end])[len(self._text(ids[:start])) :], logprobs=logprobs)

    def _text(self, ids: Sequence[int]) -> str:
        """The complete characters of the ids."""
        return b"".join(map(self._tokenizer.bytes_of, ids)).decode("utf-8", "ignore")

    def end(self) -> list[Object]:
        self._batches += self._turn.finish(completed_at=9)
        log = [event for batch in self._batches for event in events.decode(batch.frames)]
        check(log, self._batches)
        return log


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
@given(cuts=CUTS, again=CUTS)
def test_guided_answer_has_the_tokens_of_its_own_generation(level: Level, cuts: list[int], again: list[int]) -> None:
    play = Play(thinking(), level, top_logprobs=1)
    play.say(*THOUGHT, "7 oder ☃!", cuts=cuts)
    play.say("7 ☃", cuts=again)
    assert [request.top_logprobs for request in play.requests] == [1, 1]
    log = play.end()
    assert written(log) == [("7 ☃",) * 2]
    assert [len(each["top_logprobs"]) for part in parts(log) for each in part["logprobs"]] == [1] * 5
    assert next(parts(log))["logprobs"][0]["logprob"] == 0.0  # the first token of the second generation


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
@pytest.mark.parametrize("cuts", [(), range(99), (3,)])
def test_kept_text_of_the_first_generation_keeps_its_tokens(level: Level, cuts: Sequence[int]) -> None:
    play = Play(replace(reasoning_model(), can_reason=False), level, tools=[WEATHER])
    play.say("\n\n ", "Sure!", cuts=cuts)
    play.say("7", cuts=cuts)
    assert len(play.requests) == 2
    assert written(play.end()) == [("\n\n 7",) * 2]


def test_token_with_discarded_text_is_discarded() -> None:
    served = replace(of_pieces("hermes", "<think>", "so", "</think>", "\nYes", "7"), can_reason=True)
    play = Play(served, Level.TEXT)
    play.say("<think>", "so", "</think>", "\nYes")
    play.say("7")
    assert written(play.end()) == [("7", "7")]


def test_commentary_and_guided_answer_have_their_own_tokens() -> None:
    play = Play(harmony())
    opening = ("<|channel|>", "commentary", "<|message|>", "I think.", "<|end|>", "<|start|>", "assistant")
    play.say(*opening, "<|channel|>", "final", "<|message|>", "No")
    play.say("7")
    assert written(play.end()) == [("I think.",) * 2, ("7", "7")]


def test_a_guided_answer_ends_at_a_stop_text() -> None:
    play = Play(thinking(), stop="STOP")
    play.say(*THOUGHT, "So")
    play.say("7STOP8", cuts=range(99))
    assert written(play.end()) == [("7", "7")]


@pytest.mark.parametrize("level", [Level.TOKENS, Level.TEXT])
def test_second_generation_without_log_probabilities_is_read(level: Level) -> None:
    play = Play(thinking(), level)
    play.say(*THOUGHT, "So")
    ids = ids_of(TOKENIZER, "7")
    told = play._turn.receive([TokenChunk(ids) if level is Level.TOKENS else TextChunk("7")])
    deltas = [event for batch in told for event in events.decode(batch.frames) if "delta" in event]
    assert [(event["delta"], event["logprobs"]) for event in deltas] == [("7", [])]


# ---- calls ----


def test_call_before_the_answer_has_no_log_probabilities() -> None:
    play = Play(thinking(), tools=[WEATHER])
    play.say(*THOUGHT, *CALL)
    log = play.end()
    assert (kinds(log[-1]["response"]), written(log)) == (["reasoning", "function_call"], [])


def test_guided_forced_call_has_no_log_probabilities() -> None:
    play = Play(thinking(), tools=[WEATHER], tool_choice="required")
    play.say('{"city": "Rome"}')
    log = play.end()
    (call,) = log[-1]["response"]["output"]
    assert (call["arguments"], call["status"]) == ('{"city": "Rome"}', "completed")
    assert not [event for event in log if "logprobs" in event]


@pytest.mark.parametrize("cuts", [(), range(99)])
def test_text_behind_a_forced_call_has_its_log_probabilities(cuts: Sequence[int]) -> None:
    said = ('{"city": "Rome"}}\n', "</tool_call>", "\nEnde ☃.")
    log = play([*ids_of(TOKENIZER, *said), END_ID], cuts, tools=[WEATHER], tool_choice="required")
    assert kinds(log[-1]["response"]) == ["function_call", "message"]
    assert written(log) == [("Ende ☃.",) * 2]
