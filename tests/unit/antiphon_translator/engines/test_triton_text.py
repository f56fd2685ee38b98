from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import EngineFault, EngineTimeout, EngineUnavailable
from antiphon_translator.engines.text_growth import Growth
from antiphon_translator.engines.triton_model import read_config
from antiphon_translator.engines.triton_text import TextReader, describe
from antiphon_translator.generation import (
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
)
from tests.support.fake_triton import ENSEMBLE, LLM_API, TOKENS, VLLM, FakeTriton, Kind, final_response, response
from tests.support.triton_requests import sent

REQUEST = GenerationRequest(
    request_id="r",
    max_tokens=40,
    prompt=TextPrompt("Hi ü"),
    stop_ids=(2, 3),
    stop=("END", "Stop"),
    stop_in_reasoning=True,
)
GREEDY = Sampling(temperature=0.0)


def model_of(kind: Kind) -> Any:
    return read_config(FakeTriton(kind).config())


def test_request_to_an_ensemble_has_its_tensors() -> None:
    guide = Guide(GuideKind.REGEX, "[a-z]+")
    asked = replace(REQUEST, sampling=Sampling(temperature=0.5, seed=7), guide=guide)
    assert sent(describe(model_of(ENSEMBLE)).request(asked)) == {
        "text_input": ([1, 1], ["Hi ü"]),
        "max_tokens": ([1, 1], [40]),
        "stream": ([1, 1], [True]),
        "exclude_input_in_output": ([1, 1], [True]),
        "return_num_input_tokens": ([1, 1], [True]),
        "return_num_output_tokens": ([1, 1], [True]),
        "stop_words": ([1, 2], ["END", "Stop"]),
        "end_id": ([1, 1], [2]),
        "temperature": ([1, 1], [0.5]),
        "seed": ([1, 1], [7]),
        "guided_decoding_guide_type": ([1, 1], ["regex"]),
        "guided_decoding_guide": ([1, 1], ["[a-z]+"]),
    }


def test_request_to_the_llm_api_model_has_its_tensors() -> None:
    assert sent(describe(model_of(LLM_API)).request(replace(REQUEST, sampling=GREEDY))) == {
        "text_input": ([1], ["Hi ü"]),
        "sampling_param_max_tokens": ([1], [40]),
        "streaming": ([1], [True]),
        "sampling_param_exclude_input_from_output": ([1], [True]),
        "return_finish_reason": ([1], [True]),
        "sampling_param_stop": ([2], ["END", "Stop"]),
        "sampling_param_top_k": ([1], [1]),
    }


@pytest.mark.parametrize(("kind", "text"), [(LLM_API, "Hi"), (ENSEMBLE, "<s>Hi")])
def test_llm_api_model_adds_the_beginning_and_an_ensemble_may_not(kind: Kind, text: str) -> None:
    asked = replace(REQUEST, prompt=TextPrompt("<s>Hi", added="<s>"))
    assert sent(describe(model_of(kind)).request(asked))["text_input"][1] == [text]


@pytest.mark.parametrize(
    ("given", "text"), [("true", "Hi"), ("${add_special_tokens}", "Hi"), ("False", "<s>Hi"), ("0", "<s>Hi")]
)
def test_ensemble_adds_the_beginning_unless_its_preprocessing_does_not(given: str, text: str) -> None:
    step = replace(model_of(TOKENS), parameters={"add_special_tokens": given, "other": "x"})
    model = model_of(ENSEMBLE).with_steps([step, model_of(TOKENS)])
    asked = replace(REQUEST, prompt=TextPrompt("<s>Hi", added="<s>"))
    assert sent(describe(model).request(asked))["text_input"][1] == [text]
    assert model.parameters == {"add_special_tokens": given}


def test_only_declared_inputs_are_controls() -> None:
    assert describe(model_of(ENSEMBLE)).controls == {
        *("temperature", "top_p", "top_k", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed"),
        *("stop", "guide", "text_guide", "ignore_eos"),
    }
    assert describe(model_of(LLM_API)).controls == {"temperature", "top_p", "top_k", "seed", "stop"}
    assert describe(model_of(LLM_API)).level is Level.TEXT


def test_images_and_adapters_are_sent_to_a_model_with_their_inputs() -> None:
    plain = model_of(ENSEMBLE)
    bls = replace(plain, inputs={**plain.inputs, "image_url_input": "BYTES", "lora_task_id": "UINT64"})
    asked = replace(REQUEST, prompt=TextPrompt("Hi", images=(b"\xff\xd8\xff",)), lora="3")
    inputs = sent(describe(bls).request(asked))
    assert inputs["image_url_input"] == ([1, 1], ["data:image/jpeg;base64,/9j/"])
    assert inputs["lora_task_id"] == ([1, 1], [3])
    assert describe(bls).controls - describe(plain).controls == {"images", "lora"}


@pytest.mark.parametrize(
    ("changes", "control"),
    [
        ({"prompt": TextPrompt("Hi", images=(b"GIF8",))}, "images"),
        ({"top_logprobs": 1}, "logprobs"),
        ({"guide": Guide(GuideKind.JSON)}, "guide"),
        ({"sampling": Sampling(repetition_penalty=1.5)}, "repetition_penalty"),
    ],
)
def test_control_without_an_input_is_a_fault(changes: dict[str, Any], control: str) -> None:
    with pytest.raises(EngineFault, match=f"no input for {control}"):
        describe(model_of(LLM_API)).request(replace(REQUEST, **changes))


def test_model_of_another_kind_is_rejected_with_the_missing_tensor() -> None:
    with pytest.raises(EngineUnavailable, match="has no max_tokens"):
        describe(model_of(VLLM))
    with pytest.raises(EngineUnavailable, match="has no text_output"):
        describe(replace(model_of(ENSEMBLE), outputs=frozenset()))


@pytest.mark.parametrize(
    ("kind", "accumulate_tokens", "is_ensemble", "growth"),
    [
        (LLM_API, "", False, Growth.CUMULATIVE),
        (ENSEMBLE, "", True, Growth.DELTA),
        (ENSEMBLE, "True", False, Growth.CUMULATIVE),
        (ENSEMBLE, "false", False, Growth.DELTA),
        (ENSEMBLE, "${accumulate_tokens}", False, Growth.UNKNOWN),
    ],
)
def test_text_growth_is_read_from_the_model_configuration(
    kind: Kind, accumulate_tokens: str, is_ensemble: bool, growth: Growth
) -> None:
    parameters = {"accumulate_tokens": accumulate_tokens} if accumulate_tokens else {}
    assert describe(replace(model_of(kind), parameters=parameters, is_ensemble=is_ensemble)).growth is growth


def read(reader: TextReader, outputs: dict[str, Any]) -> EngineChunk | None:
    return reader.read(response(outputs).infer_response)


def counted(text: str, count: int = 1) -> dict[str, Any]:
    return {"text_output": text, "num_input_tokens": 5, "num_output_tokens": count}


def test_counts_become_usage_and_the_finish_reason() -> None:
    reader = TextReader(REQUEST, Growth.DELTA)
    assert read(reader, counted("One")) == TextChunk("One")
    assert read(reader, counted(" two", 2)) == TextChunk(" two")
    assert reader.read(final_response().infer_response) is None
    assert reader.finish() == TextChunk(finish=FinishReason.STOP, usage=ReportedUsage(5, 3))
    assert not reader.is_complete


def test_generation_of_max_tokens_finishes_with_length() -> None:
    reader = TextReader(replace(REQUEST, max_tokens=2), Growth.DELTA)
    read(reader, counted("One", 2))
    assert reader.is_complete
    assert reader.finish().finish is FinishReason.LENGTH


def test_a_stop_text_ends_the_reading_and_is_cut_off() -> None:
    reader = TextReader(REQUEST, Growth.CUMULATIVE)
    assert read(reader, counted("One E")) == TextChunk("One ")
    assert read(reader, counted("One END of")) == TextChunk("", finish=FinishReason.STOP, usage=ReportedUsage(5, 2))


def test_end_id_minus_one_lets_the_length_alone_end_a_generation() -> None:
    endless = replace(REQUEST, stop_ids=(), ignore_eos=True)
    assert sent(describe(model_of(ENSEMBLE)).request(endless))["end_id"] == ([1, 1], [-1])
    older = replace(model_of(ENSEMBLE), inputs={"text_input": "BYTES", "max_tokens": "INT32"})
    assert "ignore_eos" not in describe(older).controls


ENDING = replace(REQUEST, stop=("END",), stop_tokens=("<|eom|>", "<|end|>"))


@pytest.mark.parametrize(("kind", "name"), [(ENSEMBLE, "stop_words"), (LLM_API, "sampling_param_stop")])
def test_further_stop_tokens_are_sent_as_stop_words(kind: Kind, name: str) -> None:
    assert sent(describe(model_of(kind)).request(ENDING))[name][1] == ["END", "<|eom|>", "<|end|>"]
    assert name not in sent(describe(model_of(kind)).request(replace(ENDING, stop=(), stop_tokens=())))


def test_a_stop_token_in_the_text_ends_the_reading_and_is_cut_off() -> None:
    reader = TextReader(ENDING, Growth.DELTA)
    assert read(reader, counted("One")) == TextChunk("One")
    assert read(reader, counted(" two<|eom|>", 2)) == TextChunk(
        " two", finish=FinishReason.STOP, usage=ReportedUsage(5, 3)
    )
    assert reader.is_complete  # the model ends here by itself: its RPC need not be cancelled


def test_a_stop_text_does_not_complete_the_stream() -> None:
    reader = TextReader(ENDING, Growth.DELTA)
    assert read(reader, counted("One END")) == TextChunk("One ", finish=FinishReason.STOP, usage=ReportedUsage(5, 1))
    assert not reader.is_complete


def test_unfinished_stop_text_is_passed_on_at_the_end() -> None:
    reader = TextReader(REQUEST, Growth.DELTA)
    read(reader, counted("One E"))
    assert reader.finish() == TextChunk("E", finish=FinishReason.STOP, usage=ReportedUsage(5, 1))


def test_stop_text_is_cut_off_in_text_that_was_held_until_the_end() -> None:
    reader = TextReader(REQUEST, Growth.UNKNOWN)
    read(reader, counted("One"))
    read(reader, counted("One END"))
    assert reader.finish() == TextChunk(" ", finish=FinishReason.STOP, usage=ReportedUsage(5, 2))


def test_finish_reason_of_the_model_is_used() -> None:
    reader = TextReader(REQUEST, Growth.CUMULATIVE)
    read(reader, {"text_output": "One", "finish_reason": "None"})
    assert not reader.is_complete
    read(reader, {"text_output": "One.", "finish_reason": "length"})
    assert reader.is_complete
    assert reader.finish() == TextChunk(finish=FinishReason.LENGTH)


@pytest.mark.parametrize(("reason", "error"), [("timeout", EngineTimeout), ("cancelled", EngineFault)])
def test_finish_reason_timeout_or_cancelled_is_an_error(reason: str, error: type[Exception]) -> None:
    reader = TextReader(REQUEST, Growth.CUMULATIVE)
    read(reader, {"text_output": "One", "finish_reason": reason})
    with pytest.raises(error):
        reader.finish()


def test_model_without_counts_and_finish_reason_ends_without_them() -> None:
    reader = TextReader(REQUEST, Growth.DELTA)
    read(reader, {"text_output": "One"})
    assert reader.finish() == TextChunk()


def test_text_behind_the_finish_reason_is_left_out() -> None:
    reader = TextReader(REQUEST, Growth.DELTA)
    assert read(reader, {"text_output": "One", "finish_reason": "stop"}) == TextChunk("One")
    assert read(reader, {"text_output": " more"}) is None
    assert reader.finish().text == ""


@pytest.mark.parametrize(
    ("kind", "asks", "reused", "blocks"),
    [
        (ENSEMBLE, "return_perf_metrics", "kv_cache_reused_blocks", [3]),
        (LLM_API, "sampling_param_return_perf_metrics", "kv_cache_reused_block", "3"),
    ],
)
def test_models_that_count_cached_blocks_are_asked_where_their_size_is_known(
    kind: Kind, asks: str, reused: str, blocks: Any
) -> None:
    plain = model_of(kind)
    able = replace(plain, inputs={**plain.inputs, asks: "BOOL"}, outputs=plain.outputs | {reused})
    sized = replace(REQUEST, block_tokens=64)
    assert sent(describe(able).request(sized))[asks][1] == [True]
    assert asks not in sent(describe(able).request(REQUEST))
    assert asks not in sent(describe(replace(able, outputs=plain.outputs)).request(sized))
    reader = describe(able).reader(sized)
    read(reader, {"text_output": "One", reused: blocks})
    usage = reader.finish().usage
    assert usage is not None
    assert usage.cached_tokens == 192


@pytest.mark.parametrize("blocks", ["", "-1", "1.5", "9" * 10, "x"])
def test_a_number_of_cached_blocks_that_cannot_be_read_fails_no_answer(blocks: str) -> None:
    reader = TextReader(replace(REQUEST, block_tokens=64), Growth.DELTA, "kv_cache_reused_block")
    assert read(reader, counted("One") | {"kv_cache_reused_block": blocks}) == TextChunk("One")
    assert (reader.finish().usage or ReportedUsage()).cached_tokens in (None, 0)
