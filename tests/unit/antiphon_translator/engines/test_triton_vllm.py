from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_translator.engines.triton_model import read_config
from antiphon_translator.engines.triton_vllm import VllmReader, describe, sampling_parameters
from antiphon_translator.generation import (
    Alternative,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Level,
    ReportedUsage,
    Sampling,
    TextChunk,
    TextPrompt,
    TokenLogprob,
)
from tests.support.fake_triton import TOKENS, VLLM, FakeTriton, response
from tests.support.triton_requests import sent

MODEL = read_config(FakeTriton(VLLM).config())
REQUEST = GenerationRequest(
    request_id="r", max_tokens=40, prompt=TextPrompt("Hi"), stop_ids=(2, 3), stop=("END",), stop_in_reasoning=True
)
PLAIN = {"max_tokens": 40, "skip_special_tokens": False, "spaces_between_special_tokens": False}


def test_request_with_image_and_log_probabilities_has_their_tensors() -> None:
    prompt = TextPrompt("Hi", images=(b"\x00\x01",))
    inputs = sent(describe(MODEL).request(replace(REQUEST, prompt=prompt, top_logprobs=2)))
    (sampling,) = inputs.pop("sampling_parameters")[1]
    assert json.loads(sampling) == PLAIN | {"stop_token_ids": [2, 3], "stop": ["END"], "logprobs": 2}
    assert inputs == {
        "text_input": ([1], ["Hi"]),
        "stream": ([1], [True]),
        "exclude_input_in_output": ([1], [True]),
        "return_finish_reason": ([1], [True]),
        "return_num_input_tokens": ([1], [True]),
        "return_num_output_tokens": ([1], [True]),
        "return_logprobs": ([1], [True]),
        "image": ([1], ["AAE="]),
    }


def test_beginning_that_the_server_adds_is_not_sent() -> None:
    def text_of(prompt: TextPrompt) -> list[str]:
        return sent(describe(MODEL).request(replace(REQUEST, prompt=prompt)))["text_input"][1]

    assert text_of(TextPrompt("<s><s>Hi", added="<s>")) == ["<s>Hi"]
    assert text_of(TextPrompt("Hi <s>", added="<s>")) == ["Hi <s>"]
    assert text_of(TextPrompt("<s>Hi", added="<s>", images=(b"GIF8",))) == ["<s>Hi"]


def test_sampling_is_written_with_the_names_of_vllm() -> None:
    every = Sampling(0.5, 0.25, 7, 0.125, 1.5, -1.0, 2.0, 9)
    asked = replace(REQUEST, stop_ids=(), stop=(), sampling=every, lora="mine")
    assert sampling_parameters(asked) == PLAIN | {
        "temperature": 0.5,
        "top_p": 0.25,
        "top_k": 7,
        "min_p": 0.125,
        "repetition_penalty": 1.5,
        "presence_penalty": -1.0,
        "frequency_penalty": 2.0,
        "seed": 9,
        "lora_name": "mine",
    }
    greedy = sampling_parameters(replace(asked, sampling=Sampling(temperature=0.0, seed=3), lora=None))
    assert greedy == PLAIN | {"temperature": 0, "top_k": 1}


@pytest.mark.parametrize(
    ("guide", "written"),
    [
        (Guide(GuideKind.JSON), {"json_object": True}),
        (Guide(GuideKind.JSON_SCHEMA, '{"type":"object"}'), {"json": '{"type":"object"}'}),
        (Guide(GuideKind.REGEX, "a+"), {"regex": "a+"}),
        (Guide(GuideKind.EBNF, 'root ::= "a"'), {"grammar": 'root ::= "a"'}),
    ],
)
def test_a_guide_is_json_inside_the_json(guide: Guide, written: dict[str, Any]) -> None:
    assert json.loads(sampling_parameters(replace(REQUEST, guide=guide))["structured_outputs"]) == written


def test_older_backend_has_no_controls_for_images_and_log_probabilities() -> None:
    signature = describe(MODEL)
    assert {"min_p", "guide", "stop", "lora", "logprobs", "top_logprobs", "images"} <= signature.controls
    assert signature.level is Level.TEXT
    few = {name: kind for name, kind in MODEL.inputs.items() if name not in ("image", "return_logprobs")}
    older = describe(replace(MODEL, inputs=few))
    assert signature.controls - older.controls == {"logprobs", "top_logprobs", "images"}
    seeing = TextPrompt("Hi", images=(b"",))
    for changes, control in (({"prompt": seeing}, "images"), ({"top_logprobs": 0}, "logprobs")):
        with pytest.raises(EngineFault, match=f"no input for {control}"):
            older.request(replace(REQUEST, **changes))


def test_model_of_another_kind_is_rejected_with_the_missing_tensor() -> None:
    with pytest.raises(EngineUnavailable, match="has no text_input"):
        describe(read_config(FakeTriton(TOKENS).config()))


def read(reader: VllmReader, **outputs: Any) -> EngineChunk | None:
    return reader.read(response(outputs).infer_response)


def test_text_counts_and_finish_reason_are_read() -> None:
    reader = VllmReader(REQUEST)
    counts = {"num_input_tokens": 5, "num_output_tokens": 2}
    assert read(reader, text_output=b"caf\xc3", finish_reason="None", **counts) == TextChunk("caf")
    assert read(reader, text_output=b"\xa9", finish_reason="None", **counts) == TextChunk("é")
    assert not reader.is_complete
    assert read(reader, text_output="", finish_reason="length", **counts) is None
    assert reader.is_complete
    assert reader.finish() == TextChunk(finish=FinishReason.LENGTH, usage=ReportedUsage(5, 6))


def test_model_without_counts_ends_without_usage() -> None:
    reader = VllmReader(REQUEST)
    read(reader, text_output="a")
    assert reader.finish() == TextChunk()


def test_log_probabilities_are_read_with_their_ids() -> None:
    reader = VllmReader(replace(REQUEST, top_logprobs=2))
    place = {
        "7": {"logprob": -3.0, "rank": 9, "decoded_token": "a"},
        "5": {"logprob": -1.0, "rank": 2, "decoded_token": "b"},
        "4": {"logprob": -0.5, "rank": 1, "decoded_token": "c"},
    }
    chunk = read(reader, text_output="a", logprobs=json.dumps([place, {"4": place["4"]}]))
    assert chunk == TextChunk(
        text="a",
        logprobs=(
            TokenLogprob(7, -3.0, (Alternative(4, -0.5), Alternative(5, -1.0))),
            TokenLogprob(4, -0.5, (Alternative(4, -0.5),)),
        ),
    )
    ruled_out = read(reader, text_output="", logprobs='[{"4": {"logprob": -Infinity, "rank": 1}}]')
    assert ruled_out == TextChunk(logprobs=(TokenLogprob(4, -inf, (Alternative(4, -inf),)),))
    assert read(reader, text_output="b", logprobs="null") == TextChunk("b")
    for wrong in ("[", '[{"x": {}}]', "[{}]", "[7]", "[" * 100_000):
        with pytest.raises(EngineFault, match="cannot be read"):
            read(reader, text_output="a", logprobs=wrong)


def test_text_behind_the_finish_reason_is_left_out() -> None:
    reader = VllmReader(REQUEST)
    assert read(reader, text_output="One", finish_reason="stop") == TextChunk("One")
    assert read(reader, text_output=" more") is None
    assert reader.finish().text == ""


@pytest.mark.parametrize(
    "entries",
    [
        '{"3": {"logprob": "0", "rank": 1}}',
        '{"3": {"logprob": [], "rank": 1}}',
        '{"3": {"logprob": null, "rank": 1}}',
        '{"3": {"logprob": 1%s, "rank": 1}}' % ("0" * 400),
        '{"3": {"logprob": -1, "rank": "x"}, "4": {"logprob": -1, "rank": 1}}',
        '{"x": {"logprob": -1, "rank": 1}}',
        "{}",
        "[]",
        "5",
    ],
)
def test_hostile_log_probabilities_are_a_fault_of_the_engine(entries: str) -> None:
    reader = VllmReader(replace(REQUEST, top_logprobs=2))
    with pytest.raises(EngineFault, match="log probabilities that cannot be read"):
        read(reader, text_output="a", logprobs=f"[{entries}]")


def test_alternatives_beyond_those_that_were_asked_for_are_dropped() -> None:
    many = {str(number): {"logprob": -1e300, "rank": 1} for number in range(5_000)}
    chunk = read(VllmReader(replace(REQUEST, top_logprobs=2)), text_output="a", logprobs=json.dumps([many]))
    assert isinstance(chunk, TextChunk)
    assert [len(each.top) for each in chunk.logprobs] == [2]
