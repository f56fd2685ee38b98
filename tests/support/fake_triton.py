"""A Triton server in this process, for what a real one does not do on demand: hang, send garbage, vanish.

It speaks the real protocol with messages of the same protobufs, and has one model with the token-level signature of
TensorRT-LLM. Everything it was asked is kept in `requests`.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

from tests.support.engine_plays import Ending, Play

INPUTS = {
    "input_ids": "TYPE_INT32",
    "input_lengths": "TYPE_INT32",
    "request_output_len": "TYPE_INT32",
    "end_id": "TYPE_INT32",
    "stop_words_list": "TYPE_INT32",
    "temperature": "TYPE_FP32",
    "runtime_top_k": "TYPE_INT32",
    "runtime_top_p": "TYPE_FP32",
    "repetition_penalty": "TYPE_FP32",
    "presence_penalty": "TYPE_FP32",
    "frequency_penalty": "TYPE_FP32",
    "seed": "TYPE_UINT64",
    "streaming": "TYPE_BOOL",
    "exclude_input_in_output": "TYPE_BOOL",
}
OUTPUTS = ("sequence_length", "output_ids")
MODEL = "tensorrt_llm"

Raw = Any
"""A message to send as it is."""


def token_response(ids: Sequence[int], *, final: bool = False) -> Raw:
    """A response with these ids."""
    answer = service_pb2.ModelStreamInferResponse()
    infer = answer.infer_response
    infer.model_name = MODEL
    infer.parameters["triton_final_response"].bool_param = final
    for name, values in (("sequence_length", [len(ids)]), ("output_ids", ids)):
        tensor = infer.outputs.add(name=name, datatype="INT32")
        tensor.shape.extend([1, 1, len(values)])
        infer.raw_output_contents.append(struct.pack(f"<{len(values)}i", *values))
    return answer


def final_response() -> Raw:
    """The empty final response."""
    answer = service_pb2.ModelStreamInferResponse()
    answer.infer_response.parameters["triton_final_response"].bool_param = True
    return answer


def error_response(text: str) -> Raw:
    """An error in band."""
    return service_pb2.ModelStreamInferResponse(error_message=text)


@dataclass
class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """The server's behaviour; change its members at any time.

    `script` is what a stream answers with: raw messages, numbers (seconds of silence), or an Ending.
    """

    script: Sequence[Raw | float | Ending] = ()
    inputs: dict[str, str] = field(default_factory=lambda: dict(INPUTS))
    outputs: Sequence[str] = OUTPUTS
    max_batch_size: int = 64
    decoupled: bool = True
    server_ready: bool = True
    model_ready: bool = True
    requests: list[Raw] = field(default_factory=list)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    config_calls: int = 0
    endpoint: str = ""
    server: Any = None

    def play(self, play: Play) -> None:
        """Answers the next streams with a play."""
        self.stopped = play.stopped
        paced = [step for ids in play.messages for step in (play.pause_s, token_response(ids))]
        self.script = [*paced, play.ending]

    async def ServerReady(self, request: Raw, context: Any) -> Raw:
        return service_pb2.ServerReadyResponse(ready=self.server_ready)

    async def ModelReady(self, request: Raw, context: Any) -> Raw:
        return service_pb2.ModelReadyResponse(ready=self.model_ready and request.name == MODEL)

    async def ModelConfig(self, request: Raw, context: Any) -> Raw:
        self.config_calls += 1
        if request.name != MODEL:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.name}'")
        types = model_config_pb2.DataType
        config = model_config_pb2.ModelConfig(name=MODEL, max_batch_size=self.max_batch_size)
        config.model_transaction_policy.decoupled = self.decoupled
        for name, data_type in self.inputs.items():
            config.input.add(name=name, data_type=types.Value(data_type), optional=True)
        for name in self.outputs:
            config.output.add(name=name, data_type=types.Value("TYPE_INT32"))
        return service_pb2.ModelConfigResponse(config=config)

    async def ModelStreamInfer(self, requests: AsyncIterator[Raw], context: Any) -> AsyncIterator[Raw]:
        try:
            async for request in requests:
                self.requests.append(request)
                async for answer in self._answers(context):
                    yield answer
        except asyncio.CancelledError:
            self.stopped.set()
            raise

    async def _answers(self, context: Any) -> AsyncIterator[Raw]:
        for step in self.script:
            match step:
                case float() | int():
                    await asyncio.sleep(step)
                case Ending.BY_ITSELF:
                    yield final_response()
                case Ending.ERROR:
                    yield error_response("Error generating request: out of paper")
                case Ending.SILENCE:
                    await asyncio.Event().wait()
                case Ending.LOST:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed)")
                case _:
                    yield step


@asynccontextmanager
async def fake_triton() -> AsyncIterator[FakeTriton]:
    """A running fake on a free port of this machine."""
    fake = FakeTriton()
    fake.server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(fake, fake.server)
    fake.endpoint = f"127.0.0.1:{fake.server.add_insecure_port('127.0.0.1:0')}"
    await fake.server.start()
    try:
        yield fake
    finally:
        await fake.server.stop(None)
