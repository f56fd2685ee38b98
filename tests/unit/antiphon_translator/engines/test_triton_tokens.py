from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import EngineFault, EngineMisconfigured, EngineUnavailable
from antiphon_translator.engines.triton_model import TritonModel, read_config
from antiphon_translator.engines.triton_tokens import TokensReader, TokensSignature, describe
from antiphon_translator.generation import (
    Alternative,
    EngineFacts,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Level,
    Retention,
    RetentionRange,
    Sampling,
    TokenChunk,
    TokenLogprob,
    TokenPrompt,
)
from tests.support.fake_triton import FakeTriton, final_response, response, token_response
from tests.support.triton_requests import sent as sent_in

MODEL = read_config(FakeTriton().config())
REQUEST = GenerationRequest(request_id="resp_1", prompt=TokenPrompt((5, 6, 7)), max_tokens=40, stop_ids=(2,))


def sent(request: GenerationRequest = REQUEST, model: TritonModel = MODEL) -> dict[str, tuple[list[int], list[Any]]]:
    """Each input as (shape, values)."""
    return sent_in(describe(model).request(request))


def read(message: Any, request: GenerationRequest = REQUEST) -> list[int]:
    chunk = TokensReader(request).read(message.infer_response)
    return [] if chunk is None else list(chunk.ids)


def test_plain_request_has_only_the_required_tensors() -> None:
    assert sent() == {
        "input_ids": ([1, 3], [5, 6, 7]),
        "input_lengths": ([1, 1], [3]),
        "request_output_len": ([1, 1], [40]),
        "streaming": ([1, 1], [True]),
        "exclude_input_in_output": ([1, 1], [True]),
        "end_id": ([1, 1], [2]),
    }


def test_request_has_the_model_name_and_id_and_wants_a_final_response() -> None:
    message = describe(MODEL).request(REQUEST)
    assert (message.model_name, message.id) == ("tensorrt_llm", "resp_1")
    assert message.parameters["triton_enable_empty_final_response"].bool_param


def test_a_model_without_batching_has_no_batch_dimension() -> None:
    shapes = {name: shape for name, (shape, _) in sent(model=replace(MODEL, is_batched=False)).items()}
    assert (shapes["input_ids"], shapes["input_lengths"]) == ([3], [1])


def test_the_first_stop_id_is_the_end_id_and_the_others_are_stop_words() -> None:
    inputs = sent(replace(REQUEST, stop_ids=(2, 9, 8)))
    assert inputs["end_id"] == ([1, 1], [2])
    assert inputs["stop_words_list"] == ([1, 2, 2], [9, 8, 1, 2])
    assert not {"end_id", "stop_words_list"} & set(sent(replace(REQUEST, stop_ids=())))


def test_sampling_is_sent_under_the_input_names_of_the_model() -> None:
    sampling = Sampling(
        temperature=0.5,
        top_p=0.25,
        top_k=7,
        repetition_penalty=1.5,
        presence_penalty=-1,
        frequency_penalty=2,
        seed=2**63,
    )
    inputs = {name: values for name, (_, values) in sent(replace(REQUEST, sampling=sampling)).items()}
    assert inputs["temperature"] == [0.5]
    assert inputs["runtime_top_p"] == [0.25]
    assert inputs["runtime_top_k"] == [7]
    assert inputs["repetition_penalty"] == [1.5]
    assert (inputs["presence_penalty"], inputs["frequency_penalty"]) == ([-1], [2])
    assert inputs["seed"] == [2**63]


def test_temperature_zero_is_sent_as_top_k_1() -> None:
    inputs = sent(replace(REQUEST, sampling=Sampling(temperature=0.0, top_p=0.9, seed=7)))
    assert inputs["runtime_top_k"] == ([1, 1], [1])
    assert not {"temperature", "runtime_top_p", "seed"} & set(inputs)


def test_undeclared_inputs_are_not_sent() -> None:
    few = {name: MODEL.inputs[name] for name in ("input_ids", "input_lengths", "request_output_len")}
    assert set(sent(model=replace(MODEL, inputs=few))) == set(few)
    with pytest.raises(EngineFault, match="no input for top_p"):
        sent(replace(REQUEST, sampling=Sampling(top_p=0.5)), replace(MODEL, inputs=few))


def test_salt_conversation_and_priority_are_sent_where_the_model_declares_them() -> None:
    wishes = replace(REQUEST, cache_salt="s", conversation="c", priority=25)
    names = {"cache_salt": "BYTES", "conversation_id": "BYTES", "priority": "INT32"}
    ours = replace(MODEL, inputs={**MODEL.inputs, **names})
    assert "cache_salt" in describe(ours).controls
    assert {name: values for name, (_, values) in sent(wishes, ours).items() if name in names} == {
        "cache_salt": ["s"],
        "conversation_id": ["c"],
        "priority": [25],
    }
    assert not names.keys() & sent(REQUEST, ours).keys()
    assert "cache_salt" not in describe(MODEL).controls
    assert sent(replace(wishes, cache_salt=None)).keys() == sent().keys()


def test_retention_is_sent_as_rows_of_one_length_where_the_model_declares_them() -> None:
    ranges = "starts", "ends", "priorities", "durations_ms"
    names = {**{f"retention_token_range_{name}": "INT32" for name in ranges}, "retention_decode_priority": "INT32"}
    ours = replace(MODEL, inputs={**MODEL.inputs, **names})
    kept = Retention((RetentionRange(0, 64, 60, 1_800_000), RetentionRange(64, None, 10)), 5)
    found = {name: values for name, values in sent(replace(REQUEST, retention=kept), ours).items() if name in names}
    assert found == {
        "retention_token_range_starts": ([1, 2], [0, 64]),
        "retention_token_range_ends": ([1, 2], [64, -1]),
        "retention_token_range_priorities": ([1, 2], [60, 10]),
        "retention_token_range_durations_ms": ([1, 2], [1_800_000, -1]),
        "retention_decode_priority": ([1, 1], [5]),
    }
    forever = replace(REQUEST, retention=Retention((RetentionRange(0, None, 80),), 35))
    assert "retention_token_range_durations_ms" not in sent(forever, ours)
    assert ("retention" in describe(ours).controls, "retention" in describe(MODEL).controls) == (True, False)
    assert sent(replace(REQUEST, retention=kept)).keys() == sent().keys()


def test_salt_is_never_left_out() -> None:
    with pytest.raises(EngineMisconfigured, match="no input for cache_salt"):
        sent(replace(REQUEST, cache_salt="s"))


def test_sequence_length_cuts_the_padding() -> None:
    padded = token_response([5, 6, 0, 0])
    padded.infer_response.raw_output_contents[0] = struct.pack("<i", 2)
    assert read(padded) == [5, 6]


def test_an_empty_response_has_no_ids() -> None:
    assert read(final_response()) == []
    assert read(token_response([])) == []


@pytest.mark.parametrize("ids", [[-1], [5, -(2**31), 5]])
def test_negative_id_is_a_fault(ids: list[int]) -> None:
    """No checkpoint can hold it: with checkpoints the turn failed as a fault of the translator, with a traceback."""
    with pytest.raises(EngineFault, match="cannot be read"):
        read(token_response(ids))


def broken(change: str) -> Any:
    answer = token_response([5]).infer_response
    if change == "odd bytes":
        answer.raw_output_contents[1] = b"abc"
    elif change == "no contents":
        del answer.raw_output_contents[:]
    elif change == "two lengths":
        answer.raw_output_contents[0] = struct.pack("<2i", 1, 1)
    else:
        answer.outputs[1].name = "text_output"
    return answer


@pytest.mark.parametrize("change", ["odd bytes", "no contents", "two lengths", "another output"])
def test_malformed_response_is_a_fault(change: str) -> None:
    with pytest.raises(EngineFault, match="cannot be read"):
        TokensReader(REQUEST).read(broken(change))


def test_reader_is_complete_after_the_last_token_or_a_stop_id() -> None:
    reader = TokensReader(replace(REQUEST, max_tokens=2))
    reader.read(token_response([5]).infer_response)
    assert not reader.is_complete
    reader.read(token_response([6]).infer_response)
    assert reader.is_complete
    stopped = TokensReader(REQUEST)
    stopped.read(token_response([2]).infer_response)
    assert stopped.is_complete
    assert stopped.finish() is None


def with_inputs(**more: str) -> TritonModel:
    return replace(MODEL, inputs={**MODEL.inputs, **more}, outputs=MODEL.outputs | {"output_log_probs"})


def test_guides_adapters_and_logprobs_are_sent_to_a_model_with_their_inputs() -> None:
    model = with_inputs(
        guided_decoding_guide_type="BYTES",
        guided_decoding_guide="BYTES",
        lora_task_id="UINT64",
        return_log_probs="BOOL",
        min_p="FP32",
    )
    assert describe(model).controls - describe(MODEL).controls == {"guide", "text_guide", "lora", "logprobs", "min_p"}
    guide = Guide(GuideKind.JSON_SCHEMA, '{"type":"object"}')
    inputs = sent(replace(REQUEST, guide=guide, lora="7", top_logprobs=0), model)
    assert inputs["guided_decoding_guide_type"] == ([1, 1], ["json_schema"])
    assert inputs["guided_decoding_guide"] == ([1, 1], ['{"type":"object"}'])
    assert inputs["lora_task_id"] == ([1, 1], [7])
    assert inputs["return_log_probs"] == ([1, 1], [True])
    with pytest.raises(EngineFault, match="no input for top_logprobs"):
        sent(replace(REQUEST, top_logprobs=1), model)
    with pytest.raises(EngineFault, match="must be a number"):
        sent(replace(REQUEST, lora="mine"), model)


@pytest.mark.parametrize(
    ("changes", "control"),
    [({"guide": Guide(GuideKind.JSON)}, "guide"), ({"lora": "7"}, "lora"), ({"top_logprobs": 0}, "logprobs")],
)
def test_control_without_an_input_is_a_fault(changes: dict[str, Any], control: str) -> None:
    with pytest.raises(EngineFault, match=f"no input for {control}"):
        sent(replace(REQUEST, **changes))


def test_log_probabilities_belong_to_the_new_ids() -> None:
    reader = TokensReader(replace(REQUEST, top_logprobs=0))
    outputs: dict[str, list[float]] = {
        "sequence_length": [2],
        "output_ids": [5, 6],
        "output_log_probs": [-0.5, -0.25, -0.125],
    }
    expected = TokenChunk([5, 6], logprobs=(TokenLogprob(5, -0.25), TokenLogprob(6, -0.125)))
    assert reader.read(response(outputs).infer_response) == expected
    with pytest.raises(EngineFault, match="cannot be read"):
        reader.read(token_response([5]).infer_response)


@pytest.mark.parametrize("missing", ["input_ids", "input_lengths", "request_output_len"])
def test_model_of_another_kind_is_rejected_with_the_missing_tensor(missing: str) -> None:
    rest = {name: kind for name, kind in MODEL.inputs.items() if name != missing}
    with pytest.raises(EngineUnavailable, match=f"has no {missing}"):
        describe(replace(MODEL, inputs=rest))
    with pytest.raises(EngineUnavailable, match="has no output_ids"):
        describe(replace(MODEL, outputs=frozenset(["text_output"])))


def test_older_model_has_older_input_names_and_fewer_controls() -> None:
    older = {name: kind for name, kind in MODEL.inputs.items() if name not in ("seed", "presence_penalty")}
    signature = describe(replace(MODEL, inputs=older | {"random_seed": "UINT64"}))
    assert "seed" in signature.controls
    assert "presence_penalty" not in signature.controls
    assert signature.level is Level.TOKENS
    assert isinstance(signature, TokensSignature)


def test_facts_are_requested_only_from_a_model_that_reports_them() -> None:
    asking = {**MODEL.inputs, "return_perf_metrics": "BOOL"}
    for name in ("kv_cache_reused_blocks", "cached_tokens", "first_token_time_ns"):
        reporting = replace(MODEL, inputs=asking, outputs=MODEL.outputs | {name})
        assert sent(REQUEST, reporting)["return_perf_metrics"] == ([1, 1], [True])
        assert "return_perf_metrics" not in sent(REQUEST, replace(reporting, inputs=MODEL.inputs))
    assert "return_perf_metrics" not in sent(REQUEST, replace(MODEL, inputs=asking))


@pytest.mark.parametrize("ids", [[], [7]])
def test_facts_of_a_response_come_with_its_ids_if_it_has_any(ids: list[int]) -> None:
    told = response({"sequence_length": [len(ids)], "output_ids": ids, "cached_tokens": [70]}).infer_response
    assert TokensReader(REQUEST, has_facts=True).read(told) == TokenChunk(ids, facts=EngineFacts(70))
    assert TokensReader(REQUEST).read(told) == (TokenChunk(ids) if ids else None)


@pytest.mark.parametrize(
    ("reason", "finish"), [("stop", FinishReason.STOP), ("length", FinishReason.LENGTH), ("?", FinishReason.STOP)]
)
@pytest.mark.parametrize("ids", [[], [7]])
def test_finish_reason_of_the_model_ends_the_generation(reason: str, finish: FinishReason, ids: list[int]) -> None:
    reader = TokensReader(REQUEST)
    told = response({"sequence_length": [len(ids)], "output_ids": ids, "finish_reason": reason})
    assert reader.read(told.infer_response) == TokenChunk(ids, finish)
    assert reader.is_complete


def test_generation_that_the_model_broke_off_is_an_error() -> None:
    told = response({"sequence_length": [0], "output_ids": [], "finish_reason": "cancelled"})
    with pytest.raises(EngineFault, match="broke off the generation: cancelled"):
        TokensReader(REQUEST).read(told.infer_response)


def test_alternatives_are_requested_only_from_a_model_that_has_them() -> None:
    outputs = MODEL.outputs | {"top_log_prob_ids", "top_log_prob_values"}
    inputs = {**MODEL.inputs, "return_log_probs": "BOOL", "top_log_probs": "INT32"}
    able = replace(MODEL, inputs=inputs, outputs=outputs | {"output_log_probs"})
    asking = replace(REQUEST, top_logprobs=2)
    assert "top_logprobs" in describe(able).controls
    assert sent(asking, able)["top_log_probs"] == ([1, 1], [2])
    assert "top_log_probs" not in sent(replace(REQUEST, top_logprobs=0), able)
    with pytest.raises(EngineFault):
        sent(asking)


def test_alternatives_are_assigned_to_their_tokens() -> None:
    top: dict[str, Any] = {"top_log_prob_ids": [7, 1, 8, 2], "top_log_prob_values": [-0.5, -1.5, -0.25, -2.5]}
    said: dict[str, Any] = {"sequence_length": [2], "output_ids": [7, 8], "output_log_probs": [-0.5, -0.25]}
    reader = TokensReader(replace(REQUEST, top_logprobs=2))
    chunk = reader.read(response(said | top).infer_response)
    assert chunk is not None
    assert chunk.logprobs == (
        TokenLogprob(7, -0.5, (Alternative(7, -0.5), Alternative(1, -1.5))),
        TokenLogprob(8, -0.25, (Alternative(8, -0.25), Alternative(2, -2.5))),
    )
    with pytest.raises(EngineFault):
        reader.read(response(said).infer_response)
