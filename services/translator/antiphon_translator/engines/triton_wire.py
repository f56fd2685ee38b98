"""Triton's tensors: a generation request as a ModelInferRequest, and token ids out of a response.

Tensor contents travel as raw little-endian bytes and are packed and read as such; no array library is involved.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from tritonclient.grpc import service_pb2

from antiphon_core.errors import EngineFault
from antiphon_translator.engines.triton_model import TritonModel
from antiphon_translator.generation import GenerationRequest, Sampling

_PACKED: Mapping[str, str] = {
    "INT32": "i",
    "INT64": "q",
    "UINT32": "I",
    "UINT64": "Q",
    "FP32": "f",
    "FP64": "d",
    "BOOL": "?",
}
GREEDY_TOP_K = 1


def build_request(request: GenerationRequest, model: TritonModel) -> Any:
    """The ModelInferRequest of a generation."""
    message = service_pb2.ModelInferRequest(model_name=model.name, id=request.request_id)
    # Without it a last response that holds no token is not sent, and the end could not be told from a broken stream.
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    for name, values, shape in _tensors(request, model):
        _add(message, model, name, values, shape)
    return message


_Tensor = tuple[str, Sequence[float], tuple[int, ...]]


def _tensors(request: GenerationRequest, model: TritonModel) -> list[_Tensor]:
    """(name, values, shape) of every input to send, the batch dimension left out."""
    prompt_length = len(request.prompt_ids)
    wanted: list[_Tensor] = [
        ("input_ids", request.prompt_ids, (prompt_length,)),
        ("input_lengths", (prompt_length,), (1,)),
        ("request_output_len", (request.max_tokens,), (1,)),
    ]
    optional: list[_Tensor] = [("streaming", (True,), (1,)), ("exclude_input_in_output", (True,), (1,))]
    optional += _stop_tensors(request.stop_ids)
    wanted += [tensor for tensor in optional if tensor[0] in model.inputs]
    for control, value in _controls(request.sampling).items():
        name = model.input_of(control)
        if name is None:
            raise EngineFault(f"The Triton model '{model.name}' has no input for {control}.")
        wanted.append((name, (value,), (1,)))
    return wanted


def _stop_tensors(stop_ids: Sequence[int]) -> list[_Tensor]:
    """`end_id` takes one id; the others are stop words of one id each: all ids, then where each word ends."""
    if not stop_ids:
        return []
    end_id, *others = stop_ids
    tensors: list[_Tensor] = [("end_id", (end_id,), (1,))]
    if others:
        tensors.append(("stop_words_list", (*others, *range(1, len(others) + 1)), (2, len(others))))
    return tensors


def _controls(sampling: Sampling) -> dict[str, float]:
    """The members of a sampling that are to be sent. Temperature 0 is sent as what it means: the best token."""
    if sampling.temperature == 0:
        return {"top_k": GREEDY_TOP_K}
    members = ((name, getattr(sampling, name)) for name in Sampling.__dataclass_fields__)
    return {name: value for name, value in members if value is not None}


def _add(message: Any, model: TritonModel, name: str, values: Sequence[float], shape: tuple[int, ...]) -> None:
    data_type = model.inputs[name]
    tensor = message.inputs.add(name=name, datatype=data_type)
    tensor.shape.extend((1, *shape) if model.batched else shape)
    message.raw_input_contents.append(struct.pack(f"<{len(values)}{_PACKED[data_type]}", *values))


class ResponseReader:
    """Reads the responses of one stream.

    Where `output_ids` is among the outputs is found once: all responses of a stream list the same outputs.
    """

    def __init__(self) -> None:
        self._ids_at = -1
        self._length_at = -1

    def token_ids(self, response: Any) -> list[int]:
        """The new ids of a ModelInferResponse. EngineFault: it cannot be read."""
        outputs = response.outputs
        if not outputs:  # an empty final response
            return []
        try:
            if self._ids_at < 0 or outputs[self._ids_at].name != "output_ids":
                self._locate(outputs)
            raw = response.raw_output_contents
            ids: list[int] = memoryview(raw[self._ids_at]).cast("i").tolist()
            (length,) = memoryview(raw[self._length_at]).cast("i")
        except (IndexError, TypeError, ValueError) as error:
            raise EngineFault("The engine sent a response that cannot be read.") from error
        return ids if length == len(ids) else ids[:length]

    def _locate(self, outputs: Sequence[Any]) -> None:
        names = [output.name for output in outputs]
        self._ids_at, self._length_at = names.index("output_ids"), names.index("sequence_length")


def is_final(response: Any) -> bool:
    """Whether a ModelInferResponse says that it is the last one."""
    flag = response.parameters.get("triton_final_response")
    return flag is not None and bool(flag.bool_param)
