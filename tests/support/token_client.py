"""The smallest client of a token-level Triton model: raw messages, one request per stream."""

import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

Input = bool | int | float | str | Sequence[Sequence[int]]
"""A scalar input, or the words of a word list."""

_CODES = {"INT32": "i", "INT64": "q", "FP32": "f"}
_64_BITS = ("seed", "lora_task_id")


class TritonFault(Exception):
    """The server answered with an error, in band."""


@dataclass(slots=True)
class Answer:
    """All responses to one request."""

    ids: list[int] = field(default_factory=list)
    per_response: list[list[int]] = field(default_factory=list)
    outputs: dict[str, list[list[float]]] = field(default_factory=dict)
    """The other outputs by name, one list of numbers per response."""
    finish_reason: str = ""
    final_flag: bool = False

    def add(self, response: object) -> None:
        """Adds the outputs of one response."""
        outputs = response.outputs  # type: ignore[attr-defined]
        for tensor, data in zip(outputs, response.raw_output_contents, strict=True):  # type: ignore[attr-defined]
            if tensor.name == "finish_reason":
                self.finish_reason = data[4:].decode()
                continue
            code = _CODES[tensor.datatype]
            numbers = list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
            if tensor.name == "output_ids":
                self.per_response.append(numbers)
                self.ids.extend(numbers)
            else:
                self.outputs.setdefault(tensor.name, []).append(numbers)
        self.final_flag = response.parameters["triton_final_response"].bool_param  # type: ignore[attr-defined]


class TokenClient:
    """One channel to one server, which must be closed."""

    def __init__(self, address: str, model: str = "tensorrt_llm") -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._model = model

    async def close(self) -> None:
        await self._channel.close()

    async def generate(self, prompt: Sequence[int], tokens_max: int, **inputs: Input) -> Answer:
        """Runs one request to its end. TritonFault: the server answered with an error."""
        answer = Answer()
        async with aclosing(self.responses(prompt, tokens_max, **inputs)) as responses:
            async for response in responses:
                answer.add(response)
        return answer

    async def cancelled_after(self, count: int, prompt: Sequence[int], tokens_max: int, **inputs: Input) -> Answer:
        """Cancels the request after `count` ids."""
        answer = Answer()
        async with aclosing(self.responses(prompt, tokens_max, **inputs)) as responses:
            async for response in responses:
                answer.add(response)
                if len(answer.ids) >= count:
                    break
        return answer

    async def responses(self, prompt: Sequence[int], tokens_max: int, **inputs: Input) -> AsyncGenerator[object, None]:
        """Yields the responses as they arrive. Closing the iterator cancels the request. `id` is the request's id."""
        request = self._request(prompt, tokens_max, inputs)
        call = self._stub.ModelStreamInfer()
        try:
            await call.write(request)
            await call.done_writing()
            while (message := await call.read()) is not grpc.aio.EOF:
                if message.error_message:
                    raise TritonFault(message.error_message)
                yield message.infer_response
        finally:
            call.cancel()

    def _request(self, prompt: Sequence[int], tokens_max: int, inputs: Mapping[str, Input]) -> object:
        request = service_pb2.ModelInferRequest(model_name=self._model, id=str(inputs.get("id", "")))
        request.parameters["triton_enable_empty_final_response"].bool_param = True
        _add_input(request, "input_ids", "INT32", (1, len(prompt)), struct.pack(f"<{len(prompt)}i", *prompt))
        scalars = {"input_lengths": len(prompt), "request_output_len": tokens_max, "streaming": True, **inputs}
        for name, value in scalars.items():
            if name != "id":
                _add_value(request, name, value)
        return request


def _add_value(request: object, name: str, value: Input) -> None:
    if isinstance(value, bool):
        _add_input(request, name, "BOOL", (1, 1), struct.pack("<?", value))
    elif isinstance(value, int):
        kind, code = ("UINT64", "Q") if name in _64_BITS else ("INT32", "i")
        _add_input(request, name, kind, (1, 1), struct.pack(f"<{code}", value))
    elif isinstance(value, float):
        _add_input(request, name, "FP32", (1, 1), struct.pack("<f", value))
    elif isinstance(value, str):
        data = value.encode()
        _add_input(request, name, "BYTES", (1, 1), struct.pack("<I", len(data)) + data)
    else:
        row_ids = [token for word in value for token in word]
        offsets = [sum(map(len, value[: number + 1])) for number in range(len(value))]
        width = max(len(row_ids), len(offsets))
        rows = [*row_ids, *[0] * (width - len(row_ids)), *offsets, *[-1] * (width - len(offsets))]
        _add_input(request, name, "INT32", (1, 2, width), struct.pack(f"<{2 * width}i", *rows))


def _add_input(request: object, name: str, datatype: str, shape: tuple[int, ...], data: bytes) -> None:
    tensor = request.inputs.add(name=name, datatype=datatype)  # type: ignore[attr-defined]
    tensor.shape.extend(shape)
    request.raw_input_contents.append(data)  # type: ignore[attr-defined]
