"""Packs input tensors into a ModelInferRequest, and reads output tensors from a ModelInferResponse.

Tensors are sent as raw little-endian bytes; packing and reading them needs no array library. A text is its length in
four bytes, then its bytes.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from antiphon_core.errors import EngineFault
from antiphon_core.limits import ENGINE_TEXT_BYTES_MAX
from antiphon_translator.engines.triton_model import TritonModel

_PACKED: Mapping[str, str] = {
    "INT8": "b",
    "UINT8": "B",
    "INT16": "h",
    "UINT16": "H",
    "INT32": "i",
    "INT64": "q",
    "UINT32": "I",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
    "BOOL": "?",
}

COUNT_DIGITS_MAX = 9
"""Of counts that are sent as text."""

_parse = service_pb2.ModelStreamInferResponse.FromString

Values = Sequence[float] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input: its values in order, and its shape, the batch dimension left out."""

    name: str
    values: Values
    shape: tuple[int, ...]


def one(name: str, value: float | str) -> Tensor:
    """An input of one value."""
    return Tensor(name, (value,), (1,))  # type: ignore[arg-type]


def row(name: str, values: Values) -> Tensor:
    """An input of one dimension."""
    return Tensor(name, values, (len(values),))


def build(model: TritonModel, request_id: str, tensors: Sequence[Tensor]) -> Any:
    """A ModelInferRequest. EngineFault: a value cannot be written in the type that the model declares for it."""
    message = service_pb2.ModelInferRequest(model_name=model.name, id=request_id)
    # Without this, Triton does not send a final response that has no token, and a broken stream looks like a whole one.
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    for tensor in tensors:
        data_type = model.inputs[tensor.name]
        added = message.inputs.add(name=tensor.name, datatype=data_type)
        added.shape.extend((1, *tensor.shape) if model.is_batched else tensor.shape)
        message.raw_input_contents.append(_pack_tensor(model, tensor, data_type))
    return message


def _pack_tensor(model: TritonModel, tensor: Tensor, data_type: str) -> bytes:
    if data_type != "BYTES" and data_type not in _PACKED:
        raise EngineFault(
            f"The Triton model '{model.name}' declares its input '{tensor.name}' as {data_type}, "
            "which Antiphon cannot write."
        )
    try:
        return _pack(tensor.values, data_type)
    except (struct.error, OverflowError) as error:
        raise EngineFault(
            f"The input '{tensor.name}' of the Triton model '{model.name}' cannot hold a value, as {data_type}."
        ) from error


def _pack(values: Values, data_type: str) -> bytes:
    if data_type == "BYTES":
        encoded = [str(value).encode() for value in values]
        return b"".join(struct.pack("<I", len(data)) + data for data in encoded)
    if isinstance(values, array) and data_type == "INT32" and values.itemsize == 4 and sys.byteorder == "little":
        return values.tobytes()  # ids of a prompt: struct.pack takes 8 ms for those of a million characters
    return struct.pack(f"<{len(values)}{_PACKED[data_type]}", *values)


class Outputs:
    """Reads the outputs of the responses of one stream.

    The index of each output is remembered, because nearly all responses of a stream list the same outputs. Where a
    response differs, the output is searched again.
    """

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    def raw(self, response: Any, name: str) -> bytes | None:
        """The bytes of an output; None if the response lacks it. EngineFault: the response cannot be read."""
        outputs = response.outputs
        at = self._at.get(name, -1)
        if not 0 <= at < len(outputs) or outputs[at].name != name:
            at = next((number for number, output in enumerate(outputs) if output.name == name), -1)
            if at < 0:
                return None
            self._at[name] = at
        try:
            data: bytes = response.raw_output_contents[at]
        except IndexError as error:
            raise unreadable() from error
        return data

    def numbers(self, response: Any, name: str, form: str = "i") -> list[int] | None:
        """The four-byte numbers of an output; `form` is i, I or f."""
        data = self.raw(response, name)
        if data is None:
            return None
        try:
            numbers: list[int] = memoryview(data).cast(form).tolist()  # type: ignore[call-overload]
        except (TypeError, ValueError) as error:
            raise unreadable() from error
        return numbers

    def count(self, response: Any, name: str) -> int | None:
        """The count in an output. TensorRT-LLM's LLM API declares four-byte numbers, and sends their digits as text;
        an empty text is four zero bytes, too. None: the response lacks it, or it is no count."""
        data = self.raw(response, name)
        if not data:
            return None
        digits = data[4:]
        if digits:
            return int(digits) if digits.isdigit() and len(digits) <= COUNT_DIGITS_MAX else None
        return max(0, int.from_bytes(data, "little", signed=True))

    def text(self, response: Any, name: str) -> bytes | None:
        """The first text of an output, as bytes, because it may end inside a character."""
        data = self.raw(response, name)
        if not data:
            return None
        length = int.from_bytes(data[:4], "little")
        if len(data) < 4 + length:
            raise unreadable()
        if length > ENGINE_TEXT_BYTES_MAX:
            raise EngineFault(f"The engine sent a text of {length} bytes in one message.")
        return data[4 : 4 + length]


def parse_response(message: bytes) -> Any:
    """A ModelStreamInferResponse. EngineFault: the message cannot be parsed."""
    try:
        return _parse(message)
    except DecodeError as error:
        raise unreadable() from error


def unreadable() -> EngineFault:
    """The error for a malformed response."""
    return EngineFault("The engine sent a response that cannot be read.")


def is_final(response: Any) -> bool:
    """Whether Triton marks a ModelInferResponse as the last one."""
    flag = response.parameters.get("triton_final_response")
    return flag is not None and bool(flag.bool_param)
