"""Triton's tensors: inputs into a ModelInferRequest, outputs out of a response.

Tensor contents travel as raw little-endian bytes and are packed and read as such; no array library is involved. A
text is its length in four bytes, then its bytes.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tritonclient.grpc import service_pb2

from antiphon_core.errors import EngineFault
from antiphon_core.limits import ENGINE_TEXT_BYTES_MAX
from antiphon_translator.engines.triton_model import TritonModel

_PACKED: Mapping[str, str] = {
    "INT32": "i",
    "INT64": "q",
    "UINT32": "I",
    "UINT64": "Q",
    "FP32": "f",
    "FP64": "d",
    "BOOL": "?",
}

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
    """A ModelInferRequest."""
    message = service_pb2.ModelInferRequest(model_name=model.name, id=request_id)
    # Without it a last response that holds no token is not sent, and the end could not be told from a broken stream.
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    for tensor in tensors:
        data_type = model.inputs[tensor.name]
        added = message.inputs.add(name=tensor.name, datatype=data_type)
        added.shape.extend((1, *tensor.shape) if model.batched else tensor.shape)
        message.raw_input_contents.append(_pack(tensor.values, data_type))
    return message


def _pack(values: Values, data_type: str) -> bytes:
    if data_type == "BYTES":
        encoded = [str(value).encode() for value in values]
        return b"".join(struct.pack("<I", len(data)) + data for data in encoded)
    if isinstance(values, array) and data_type == "INT32" and values.itemsize == 4 and sys.byteorder == "little":
        return values.tobytes()  # ids of a prompt: a million characters take 8 ms otherwise
    return struct.pack(f"<{len(values)}{_PACKED[data_type]}", *values)


class Outputs:
    """Reads the outputs of the responses of one stream.

    Where an output is was found once: all responses of a stream that hold any list the same outputs, and where one does
    not, they are looked for again.
    """

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    def raw(self, response: Any, name: str) -> bytes | None:
        """The bytes of an output, None where it is not there. EngineFault: the response cannot be read."""
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

    def text(self, response: Any, name: str) -> bytes | None:
        """The first text of an output, as bytes: it may end in the midst of a character."""
        data = self.raw(response, name)
        if not data:
            return None
        length = int.from_bytes(data[:4], "little")
        if len(data) < 4 + length:
            raise unreadable()
        if length > ENGINE_TEXT_BYTES_MAX:
            raise EngineFault(f"The engine sent a text of {length} bytes in one message.")
        return data[4 : 4 + length]


def unreadable() -> EngineFault:
    """The error for a response that is not what its outputs say."""
    return EngineFault("The engine sent a response that cannot be read.")


def is_final(response: Any) -> bool:
    """Whether a ModelInferResponse says that it is the last one."""
    flag = response.parameters.get("triton_final_response")
    return flag is not None and bool(flag.bool_param)
