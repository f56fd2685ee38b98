"""The rules of a generation that hold on every engine."""

from dataclasses import replace
from typing import Any

import pytest

from antiphon_tokens.generation import FinishReason, Generation, Limits, Output, RequestError, Sampling, Token, fit

ASKED = Generation(prompt=[1, 2], tokens_max=4, end_id=9, stop_words=((6, 7), (5,)))
LIMITS = Limits(context_length=5, vocabulary=10)


@pytest.mark.parametrize(
    ("tokens", "ids", "finish"),
    [
        ([1, 6], [1, 6], None),
        ([1, 6, 7, 8], [1, 6, 7], FinishReason.STOP),
        ([7, 9, 1], [7], FinishReason.STOP),
        ([9], [], FinishReason.STOP),
        ([5], [5], FinishReason.STOP),
        ([1, 1, 1, 1, 1], [1, 1, 1, 1], FinishReason.LENGTH),
        ([1, 1, 1, 5], [1, 1, 1, 5], FinishReason.STOP),
    ],
)
@pytest.mark.parametrize("at_once", [1, 2, 9])
def test_output_ends_before_the_end_id_and_behind_a_stop_word_or_the_last_token(
    tokens: list[int], ids: list[int], finish: FinishReason | None, at_once: int
) -> None:
    output, taken = Output(ASKED), list[Token]()
    for first in range(0, len(tokens), at_once):
        taken += output.take([Token(number) for number in tokens[first : first + at_once]])
    assert (output.ids, [token.id for token in taken], output.finish) == (ids, ids, finish)


def test_number_of_tokens_is_cut_to_the_rest_of_the_context() -> None:
    assert fit(ASKED, LIMITS) == replace(ASKED, tokens_max=3)
    assert fit(replace(ASKED, tokens_max=2), LIMITS).tokens_max == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": []}, "input_ids is empty"),
        ({"prompt": [1] * 5}, r"Prompt length \(5\) exceeds maximum input length \(4\)"),
        ({"tokens_max": 0}, "request_output_len must be positive, got 0"),
        ({"prompt": [1, 10]}, r"token id 10 is outside the vocabulary \(0 to 9\)"),
        ({"prompt": [-1]}, "token id -1 is outside"),
        ({"end_id": 10}, "token id 10 is outside"),
        ({"stop_words": ((1,), (2, 11))}, "token id 11 is outside"),
        ({"sampling": Sampling(bad_words=((12,),))}, "token id 12 is outside"),
        ({"sampling": Sampling(bias=((13, 1.0),))}, "token id 13 is outside"),
    ],
)
def test_generation_that_can_never_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        fit(replace(ASKED, **changes), LIMITS)


def test_what_the_engine_does_not_say_is_not_checked() -> None:
    assert fit(replace(ASKED, prompt=[10]), Limits()).prompt == [10]


@pytest.mark.parametrize(
    ("settings", "greedy"),
    [
        ({}, True),
        ({"temperature": 0.7}, True),
        ({"temperature": 0.0, "top_p": 0.9}, True),
        ({"top_k": 1, "top_p": 0.9}, True),
        ({"top_p": 0.9}, False),
        ({"top_k": 40}, False),
    ],
)
def test_greedy_sampling_follows_the_rules_of_tensorrt_llm(settings: dict[str, Any], greedy: bool) -> None:
    assert Sampling(**settings).is_greedy is greedy


def test_stop_ids_are_the_end_id_and_the_stop_words_of_one_id() -> None:
    assert ASKED.stop_ids == [9, 5]
    assert replace(ASKED, end_id=None).stop_ids == [5]
