from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import EngineFault
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_wire import ResponseReader, build_request, is_final
from antiphon_translator.generation import GenerationRequest, Sampling
from tests.support.fake_triton import INPUTS, final_response, token_response

MODEL = TritonModel("tensorrt_llm", batched=True, inputs={name: kind[5:] for name, kind in INPUTS.items()})
REQUEST = GenerationRequest(request_id="resp_1", prompt_ids=(5, 6, 7), max_tokens=40, stop_ids=(2,))
FORMATS = {"INT32": "i", "UINT64": "Q", "FP32": "f", "BOOL": "?"}


def sent(request: GenerationRequest = REQUEST, model: TritonModel = MODEL) -> dict[str, tuple[list[int], list[Any]]]:
    """Each input as (shape, values)."""
    message = build_request(request, model)
    read = {}
    for tensor, raw in zip(message.inputs, message.raw_input_contents, strict=True):
        form = FORMATS[tensor.datatype]
        values = [value for (value,) in struct.iter_unpack(f"<{form}", raw)]
        read[tensor.name] = (list(tensor.shape), values)
    return read


def test_a_plain_request() -> None:
    assert sent() == {
        "input_ids": ([1, 3], [5, 6, 7]),
        "input_lengths": ([1, 1], [3]),
        "request_output_len": ([1, 1], [40]),
        "streaming": ([1, 1], [True]),
        "exclude_input_in_output": ([1, 1], [True]),
        "end_id": ([1, 1], [2]),
    }


def test_the_envelope_of_a_request() -> None:
    message = build_request(REQUEST, MODEL)
    assert (message.model_name, message.id) == ("tensorrt_llm", "resp_1")
    assert message.parameters["triton_enable_empty_final_response"].bool_param


def test_a_model_without_batching_has_no_batch_dimension() -> None:
    shapes = {name: shape for name, (shape, _) in sent(model=replace(MODEL, batched=False)).items()}
    assert (shapes["input_ids"], shapes["input_lengths"]) == ([3], [1])


def test_the_first_stop_id_is_the_end_id_and_the_others_are_stop_words() -> None:
    inputs = sent(replace(REQUEST, stop_ids=(2, 9, 8)))
    assert inputs["end_id"] == ([1, 1], [2])
    assert inputs["stop_words_list"] == ([1, 2, 2], [9, 8, 1, 2])
    assert not {"end_id", "stop_words_list"} & set(sent(replace(REQUEST, stop_ids=())))


def test_sampling_goes_where_the_model_has_it() -> None:
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


def test_temperature_zero_is_sent_as_the_best_token() -> None:
    inputs = sent(replace(REQUEST, sampling=Sampling(temperature=0.0, top_p=0.9, seed=7)))
    assert inputs["runtime_top_k"] == ([1, 1], [1])
    assert not {"temperature", "runtime_top_p", "seed"} & set(inputs)


def test_nothing_is_sent_that_the_model_does_not_declare() -> None:
    few = {name: MODEL.inputs[name] for name in ("input_ids", "input_lengths", "request_output_len")}
    assert set(sent(model=replace(MODEL, inputs=few))) == set(few)
    with pytest.raises(EngineFault, match="no input for top_p"):
        sent(replace(REQUEST, sampling=Sampling(top_p=0.5)), replace(MODEL, inputs=few))


def test_ids_are_read_wherever_the_outputs_are() -> None:
    read = ResponseReader().token_ids
    one = token_response([5]).infer_response
    assert read(one) == [5]
    turned = token_response([6, 7]).infer_response
    swapped = [turned.outputs[1], turned.outputs[0]]
    raw = [turned.raw_output_contents[1], turned.raw_output_contents[0]]
    del turned.outputs[:], turned.raw_output_contents[:]
    turned.outputs.extend(swapped)
    turned.raw_output_contents.extend(raw)
    assert read(turned) == [6, 7]
    assert read(one) == [5]


def test_sequence_length_cuts_the_padding() -> None:
    padded = token_response([5, 6, 0, 0]).infer_response
    padded.raw_output_contents[0] = struct.pack("<i", 2)
    assert ResponseReader().token_ids(padded) == [5, 6]


def test_an_empty_response_has_no_ids_and_may_be_final() -> None:
    assert ResponseReader().token_ids(final_response().infer_response) == []
    assert ResponseReader().token_ids(token_response([]).infer_response) == []
    assert is_final(final_response().infer_response)
    assert is_final(token_response([5], final=True).infer_response)
    assert not is_final(token_response([5]).infer_response)


def broken(change: str) -> Any:
    response = token_response([5]).infer_response
    if change == "odd bytes":
        response.raw_output_contents[1] = b"abc"
    elif change == "no contents":
        del response.raw_output_contents[:]
    elif change == "two lengths":
        response.raw_output_contents[0] = struct.pack("<2i", 1, 1)
    else:
        response.outputs[1].name = "text_output"
    return response


@pytest.mark.parametrize("change", ["odd bytes", "no contents", "two lengths", "another output"])
def test_a_response_that_cannot_be_read_is_a_fault(change: str) -> None:
    with pytest.raises(EngineFault, match="cannot be read"):
        ResponseReader().token_ids(broken(change))
