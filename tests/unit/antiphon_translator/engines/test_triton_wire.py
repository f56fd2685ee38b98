from __future__ import annotations

import struct
from array import array

import pytest

from antiphon_core.errors import EngineFault
from antiphon_translator.engines import triton_wire
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.engines.triton_wire import Outputs, Tensor, build, is_final, one, row
from tests.support.fake_triton import final_response, response, token_response
from tests.support.triton_requests import sent

MODEL = TritonModel("m", is_batched=True, inputs={"ids": "INT32", "words": "BYTES", "seed": "UINT64", "top_p": "FP32"})


def test_tensors_are_packed_in_the_declared_types() -> None:
    tensors = [row("ids", (5, 6)), row("words", ("é", "")), one("seed", 2**63), one("top_p", 0.25)]
    assert sent(build(MODEL, "r", tensors)) == {
        "ids": ([1, 2], [5, 6]),
        "words": ([1, 2], ["é", ""]),
        "seed": ([1, 1], [2**63]),
        "top_p": ([1, 1], [0.25]),
    }


@pytest.mark.parametrize(
    ("dtype", "form"), [("FP16", "e"), ("INT8", "b"), ("UINT8", "B"), ("INT16", "h"), ("UINT16", "H")]
)
def test_small_numbers_are_packed_in_the_declared_type(dtype: str, form: str) -> None:
    message = build(TritonModel("m", is_batched=True, inputs={"x": dtype}), "r", [one("x", 2)])
    assert list(message.raw_input_contents) == [struct.pack(f"<{form}", 2)]


def test_unknown_data_type_is_a_fault_that_names_model_input_and_type() -> None:
    odd = TritonModel("m", is_batched=True, inputs={"temperature": "BF16"})
    with pytest.raises(EngineFault, match="model 'm' declares its input 'temperature' as BF16"):
        build(odd, "r", [one("temperature", 0.5)])


def test_value_that_the_declared_type_cannot_hold_is_a_fault() -> None:
    small = TritonModel("m", is_batched=True, inputs={"random_seed": "INT32"})
    with pytest.raises(EngineFault, match="input 'random_seed' of the Triton model 'm' cannot hold a value, as INT32"):
        build(small, "r", [one("random_seed", 2**31)])


def test_tensor_of_two_dimensions_keeps_its_shape_without_batching() -> None:
    unbatched = TritonModel("m", is_batched=False, inputs=MODEL.inputs)
    assert sent(build(unbatched, "r", [Tensor("ids", (1, 2, 3, 4), (2, 2))])) == {"ids": ([2, 2], [1, 2, 3, 4])}


def test_request_has_the_model_name_and_id_and_wants_a_final_response() -> None:
    message = build(MODEL, "resp_1", [])
    assert (message.model_name, message.id) == ("m", "resp_1")
    assert message.parameters["triton_enable_empty_final_response"].bool_param


def test_outputs_are_found_in_any_order() -> None:
    outputs = Outputs()
    first = response({"a": [1], "b": [2, 3]}).infer_response
    turned = response({"b": [4], "a": [5]}).infer_response
    assert outputs.numbers(first, "b") == [2, 3]
    assert outputs.numbers(turned, "b") == [4]
    assert outputs.numbers(first, "b") == [2, 3]
    assert outputs.numbers(final_response().infer_response, "b") is None
    assert outputs.numbers(first, "c") is None


def test_text_and_float_outputs_are_read() -> None:
    answer = response({"text": "für", "p": [0.5]}).infer_response
    assert Outputs().text(answer, "text") == "für".encode()
    assert Outputs().numbers(answer, "p", "f") == [0.5]


def test_malformed_tensor_is_a_fault() -> None:
    odd, short, bare = (response({"a": "words"}).infer_response for _ in range(3))
    odd.raw_output_contents[0] = b"abc"
    short.raw_output_contents[0] = struct.pack("<I", 9) + b"abc"
    del bare.raw_output_contents[:]
    with pytest.raises(EngineFault, match="cannot be read"):
        Outputs().numbers(odd, "a")
    with pytest.raises(EngineFault, match="cannot be read"):
        Outputs().text(short, "a")
    with pytest.raises(EngineFault, match="cannot be read"):
        Outputs().raw(bare, "a")


def test_only_the_last_response_is_final() -> None:
    assert is_final(final_response().infer_response)
    assert is_final(token_response([5], final=True).infer_response)
    assert not is_final(token_response([5]).infer_response)


def test_ids_in_an_array_are_sent_in_the_declared_type() -> None:
    assert sent(build(MODEL, "r", [row("ids", array("I", (5, 2**31 - 1)))])) == {"ids": ([1, 2], [5, 2**31 - 1])}
    assert sent(build(MODEL, "r", [row("seed", array("I", (5, 6)))])) == {"seed": ([1, 2], [5, 6])}


def test_text_over_the_message_limit_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_wire, "ENGINE_TEXT_BYTES_MAX", 3)
    answer = response({"text_output": "four"}).infer_response
    with pytest.raises(EngineFault, match="4 bytes in one message"):
        Outputs().text(answer, "text_output")
