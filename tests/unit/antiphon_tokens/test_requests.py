from typing import Any

import numpy as np
import pytest

from antiphon_tokens import requests
from antiphon_tokens.generation import Guide, RequestError, Retention, RetentionRange
from tests.support.triton_backend import request, tensor


def words(*rows: list[int]) -> Any:
    return np.array([rows], dtype="int32")


def test_smallest_request_has_the_defaults_of_tensorrt_llm() -> None:
    read = requests.read_generation(request([5, 6, 7], 9))
    assert (read.prompt, read.tokens_max, read.end_id, read.stop_words) == ([5, 6, 7], 9, None, ())
    assert (read.sampling.is_greedy, read.log_probs, read.guide, read.retention) == (True, False, None, None)


def test_prompt_is_cut_to_its_length() -> None:
    assert requests.read_generation(request([5, 6, 7], input_lengths=2)).prompt == [5, 6]


def test_every_input_is_read() -> None:
    asked = request(
        [1], 8, end_id=2, temperature=0.5, runtime_top_k=7, runtime_top_p=0.5, min_p=0.25, seed=3,
        repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25, min_tokens=1, return_log_probs=True,
        top_log_probs=2, guided_decoding_guide_type="regex", guided_decoding_guide="a+", lora_task_id=4,
        cache_salt="tenant", conversation_id="c", priority=7, embedding_bias=[0.0, 1.5],
    )  # fmt: skip
    asked.inputs["stop_words_list"] = words([6, 7, 5], [2, 3, -1])
    asked.inputs["bad_words_list"] = words([8], [1])
    read = requests.read_generation(asked)
    sampling = read.sampling
    assert (read.end_id, read.stop_words, sampling.bad_words) == (2, ((6, 7), (5,)), ((8,),))
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.5, 7, 0.5, 0.25)
    penalties = (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty)
    assert (sampling.seed, sampling.min_tokens, sampling.bias, penalties) == (3, 1, ((1, 1.5),), (2.0, 0.5, 0.25))
    assert (read.log_probs, read.top_log_probs, read.guide, read.lora) == (True, 2, Guide("regex", "a+"), 4)
    assert (read.cache_salt, read.conversation_id, read.priority) == ("tenant", "c", 7)


def test_retention_ranges_are_rows_and_minus_one_means_no_end() -> None:
    ranges = {"starts": [0, 8], "ends": [8, -1], "priorities": [90, 10], "durations_ms": [500, -1]}
    named: dict[str, Any] = {f"retention_token_range_{name}": value for name, value in ranges.items()}
    read = requests.read_generation(request([1], **named, retention_decode_priority=5, retention_decode_duration_ms=9))
    assert read.retention == Retention((RetentionRange(0, 8, 90, 500), RetentionRange(8, None, 10, None)), 5, 9)
    del named["retention_token_range_durations_ms"]
    shorter = requests.read_generation(request([1], **named)).retention
    assert shorter == Retention((RetentionRange(0, 8, 90), RetentionRange(8, None, 10)))
    assert requests.read_generation(request([1], retention_decode_priority=5)).retention is None


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"input_lengths": 4}, "input_lengths is 4, but input_ids holds 3 ids"),
        ({"input_lengths": -1}, "input_lengths is -1"),
        ({"beam_width": 2}, "beam_width other than 1"),
        ({"num_return_sequences": 0}, "num_return_sequences other than 1"),
        ({"temperature": -0.5}, "temperature must not be negative"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be positive"),
        ({"runtime_top_p": float("nan")}, "runtime_top_p must be a finite number"),
        ({"min_p": float("inf")}, "min_p must be a finite number"),
        ({"top_log_probs": 21}, "top_log_probs must be 0 to 20, got 21"),
        ({"priority": 101}, "priority must be 0 to 100, got 101"),
        ({"cache_salt": "a" * 257}, "cache_salt has 257 characters; at most 256"),
        ({"conversation_id": b"\xff"}, "conversation_id must be UTF-8"),
        ({"retention_token_range_starts": [0]}, "must have one length"),
    ],
)
def test_input_that_cannot_be_served_is_refused_by_its_name(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        requests.read_generation(request([5, 6, 7], **inputs))


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("input_ids", None, "input_ids is missing"),
        ("input_ids", np.zeros((2, 3), "int32"), r"shape \[1, length\], got shape \[2, 3\]"),
        ("stop_words_list", np.zeros((1, 3), "int32"), r"stop_words_list must have shape \[1, 2, n\], got \[1, 3\]"),
        ("bad_words_list", words([1, 2], [2, 1]), r"bad_words_list: offsets \[2, 1\] do not divide 2 ids"),
        ("bad_words_list", words([1, 2], [3, -1]), "do not divide"),
    ],
)
def test_tensor_of_another_form_is_refused_by_its_name(name: str, array: Any, message: str) -> None:
    asked = request([1])
    del asked.inputs["input_ids" if array is None else "request_output_len"]
    if array is not None:
        asked.inputs[name] = array
    with pytest.raises(RequestError, match=message):
        requests.read_generation(asked)


def test_answer_has_the_prompt_and_nothing_else_unless_the_request_asks() -> None:
    assert requests.read_answer(request([1])) == requests.Answer(False, True, False, False, False)
    names = ("streaming", "exclude_input_in_output", "return_num_input_tokens", "return_num_output_tokens")
    flags: dict[str, Any] = dict.fromkeys(names, True)
    asked = request([1], return_perf_metrics=True, **flags)
    assert requests.read_answer(asked) == requests.Answer(True, False, True, True, True)


def test_stop_is_a_request_that_ends_another() -> None:
    assert requests.is_stop(request([0], stop=True))
    assert not requests.is_stop(request([0]))
    assert tensor(True).tolist() == [[True]]
