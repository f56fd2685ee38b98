from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.jsons import loads
from antiphon_translator.engines import vllm_wire
from antiphon_translator.engines.vllm_wire import TokensReader
from antiphon_translator.generation import (
    Alternative,
    EngineFacts,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Sampling,
    TextPrompt,
    TokenChunk,
    TokenLogprob,
    TokenPrompt,
)
from tests.support.fake_generate import ids_event, scored
from tests.support.unread import NotedParts

REQUEST = GenerationRequest(request_id="resp_1", max_tokens=40, prompt=TokenPrompt((5, 6)), stop_ids=(2, 7))


def params_of(**changes: Any) -> dict[str, Any]:
    params: dict[str, Any] = vllm_wire.body(replace(REQUEST, **changes), "m")["sampling_params"]
    return params


def _read_all(reader: TokensReader, event: bytes) -> Any:
    """The chunk of an event, also of a last one, behind which no usage comes."""
    return reader.read(loads(event.removeprefix(b"data: "))) or reader.finish()


def read(event: bytes, **changes: Any) -> Any:
    return _read_all(TokensReader(replace(REQUEST, **changes), NotedParts()), event)


def test_body_has_the_token_ids_the_limit_and_the_stop_ids() -> None:
    assert vllm_wire.body(REQUEST, "meta/m") == {
        "request_id": "resp_1",
        "model": "meta/m",
        "token_ids": [5, 6],
        "stream": True,
        "stream_options": {"include_usage": True},
        "sampling_params": {"max_tokens": 40, "detokenize": False, "stop_token_ids": [2, 7]},
    }


def test_salt_is_sent() -> None:
    assert vllm_wire.body(replace(REQUEST, cache_salt="s"), "m")["cache_salt"] == "s"
    assert "cache_salt" in vllm_wire.CONTROLS


def test_adapter_is_sent_as_the_model_name() -> None:
    assert vllm_wire.body(replace(REQUEST, lora="pirate"), "m")["model"] == "pirate"


def test_sampling_keeps_its_names_and_greedy_is_sent_as_temperature_0() -> None:
    sampling = Sampling(temperature=0, top_k=3, repetition_penalty=1.1, seed=7)
    expected = {"temperature": 0, "top_k": 3, "repetition_penalty": 1.1, "seed": 7}
    assert expected.items() <= params_of(sampling=sampling).items()


def test_ignore_eos_and_guides_are_sent() -> None:
    assert params_of(ignore_eos=True, stop_ids=()).keys() == {"max_tokens", "detokenize", "ignore_eos"}
    schema = Guide(GuideKind.JSON_SCHEMA, '{"type":"object"}')
    assert params_of(guide=schema)["structured_outputs"] == {"json": '{"type":"object"}'}


@pytest.mark.parametrize(("top", "asked"), [(0, 0), (1, 2), (5, 6), (20, 20)])
def test_one_more_alternative_is_requested_up_to_the_server_limit(top: int, asked: int) -> None:
    assert params_of(top_logprobs=top)["logprobs"] == asked


def test_prompt_of_another_level_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="takes a TokenPrompt, and was given a TextPrompt"):
        vllm_wire.body(replace(REQUEST, prompt=TextPrompt("Hi")), "m")


def test_every_sampling_parameter_is_a_control() -> None:
    assert Sampling.__dataclass_fields__.keys() < vllm_wire.CONTROLS
    assert not {"stop", "images"} & vllm_wire.CONTROLS


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("repetition", FinishReason.STOP),
        ("new", FinishReason.STOP),
    ],
)
def test_last_event_has_the_finish_reason(reason: str, finish: FinishReason) -> None:
    chunk = read(ids_event([8, 2], reason))
    assert (list(chunk.ids), chunk.finish) == ([8, 2], finish)


def test_event_without_ids_and_finish_reason_makes_no_chunk() -> None:
    assert read(ids_event([])) is None
    assert TokensReader(REQUEST, NotedParts()).read({"choices": [], "usage": {"prompt_tokens": 2}}) is None


@pytest.mark.parametrize(
    ("usage", "facts", "parts"),
    [
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}, EngineFacts(8), []),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, None, []),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": -1}}, None, []),
        (None, None, []),
        ([7], None, ["usage"]),
    ],
)
def test_last_ids_come_with_the_usage_behind_them(usage: Any, facts: EngineFacts | None, parts: list[str]) -> None:
    unread = NotedParts()
    reader = TokensReader(REQUEST, unread)
    assert reader.read(loads(ids_event([8, 2], "stop").removeprefix(b"data: "))) is None
    assert reader.read({"choices": [], "usage": usage}) == TokenChunk([8, 2], FinishReason.STOP, facts=facts)
    assert (reader.finish(), unread.parts) == (None, parts)


def test_event_with_an_empty_finish_reason_does_not_end_the_output() -> None:
    reader = TokensReader(REQUEST, NotedParts())
    chunk = reader.read(loads(ids_event([8], "").removeprefix(b"data: ")))
    assert chunk is not None
    assert (list(chunk.ids), chunk.finish) == ([8], None)
    assert not reader.is_complete


def test_a_reader_is_complete_with_a_finish_reason() -> None:
    reader = TokensReader(REQUEST, NotedParts())
    reader.read(loads(ids_event([8]).removeprefix(b"data: ")))
    assert not reader.is_complete
    reader.read(loads(ids_event([2], "stop").removeprefix(b"data: ")))
    assert reader.is_complete


def test_an_aborted_generation_is_unavailable_and_one_with_an_error_a_fault() -> None:
    with pytest.raises(EngineUnavailable, match="aborted"):
        read(ids_event([8], "abort"))
    with pytest.raises(EngineFault, match="broke off the generation: error"):
        read(ids_event([8], "error"))


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"choices": 7},
        {"choices": [{}, {}]},
        {"choices": [{"token_ids": ["x"]}]},
        {"choices": [{"token_ids": [[1]]}]},
        {"choices": [{"token_ids": [5, -1]}]},
        {"choices": [{"token_ids": [2**32]}]},
        {"choices": [{"token_ids": [float("inf")]}]},
    ],
)
def test_malformed_event_is_a_fault(event: Any) -> None:
    with pytest.raises(EngineFault, match="cannot be read"):
        TokensReader(REQUEST, NotedParts()).read(event)


def test_unlikely_chosen_token_does_not_replace_an_alternative() -> None:
    among = scored((8, -0.5, {8: -0.5, 9: -1.5, 10: -2.5}))
    apart = scored((11, -9.0, {11: -9.0, 8: -0.5, 9: -1.5}))
    likeliest = (Alternative(8, -0.5), Alternative(9, -1.5))
    assert read(ids_event([8], logprobs=among), top_logprobs=2).logprobs == (TokenLogprob(8, -0.5, likeliest),)
    assert read(ids_event([11], logprobs=apart), top_logprobs=2).logprobs == (TokenLogprob(11, -9.0, likeliest),)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {"content": []},
        {"content": [{"token": "token_id:8"}]},
        {"content": [{"token": "x", "logprob": 0, "top_logprobs": [{"token": "Paris", "logprob": 0}]}]},
    ],
)
def test_missing_log_probabilities_are_a_fault(logprobs: Any) -> None:
    with pytest.raises(EngineFault, match="cannot be read"):
        read(ids_event([8], logprobs=logprobs), top_logprobs=1)


def test_ids_of_another_choice_are_left_out() -> None:
    assert TokensReader(REQUEST, NotedParts()).read({"choices": [{"index": 5, "token_ids": [7]}]}) is None
