"""A Triton server in this process that can do what a real one does not do on demand: hang, send garbage, vanish.

It speaks the real protocol with the real protobuf messages, and has one model, of one of four kinds. `requests` has all
its requests.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

from tests.support.engine_plays import Ending, Play, as_text

SAMPLING = {
    "temperature": "TYPE_FP32",
    "repetition_penalty": "TYPE_FP32",
    "presence_penalty": "TYPE_FP32",
    "frequency_penalty": "TYPE_FP32",
    "seed": "TYPE_UINT64",
}
GUIDES = {"guided_decoding_guide_type": "TYPE_STRING", "guided_decoding_guide": "TYPE_STRING"}
INPUTS = {
    "input_ids": "TYPE_INT32",
    "input_lengths": "TYPE_INT32",
    "request_output_len": "TYPE_INT32",
    "end_id": "TYPE_INT32",
    "stop_words_list": "TYPE_INT32",
    "runtime_top_k": "TYPE_INT32",
    "runtime_top_p": "TYPE_FP32",
    "streaming": "TYPE_BOOL",
    "exclude_input_in_output": "TYPE_BOOL",
    **SAMPLING,
}
ENSEMBLE_INPUTS = {
    "text_input": "TYPE_STRING",
    "max_tokens": "TYPE_INT32",
    "stop_words": "TYPE_STRING",
    "end_id": "TYPE_INT32",
    "top_k": "TYPE_INT32",
    "top_p": "TYPE_FP32",
    "stream": "TYPE_BOOL",
    "exclude_input_in_output": "TYPE_BOOL",
    "return_num_input_tokens": "TYPE_BOOL",
    "return_num_output_tokens": "TYPE_BOOL",
    **SAMPLING,
    **GUIDES,
}
LLM_API_INPUTS = {
    "text_input": "TYPE_STRING",
    "streaming": "TYPE_BOOL",
    "sampling_param_max_tokens": "TYPE_INT32",
    "sampling_param_temperature": "TYPE_FP32",
    "sampling_param_top_p": "TYPE_FP32",
    "sampling_param_top_k": "TYPE_INT32",
    "sampling_param_seed": "TYPE_UINT64",
    "sampling_param_stop": "TYPE_STRING",
    "sampling_param_exclude_input_from_output": "TYPE_BOOL",
    "return_finish_reason": "TYPE_BOOL",
}
VLLM_INPUTS = {
    "text_input": "TYPE_STRING",
    "image": "TYPE_STRING",
    "stream": "TYPE_BOOL",
    "sampling_parameters": "TYPE_STRING",
    "exclude_input_in_output": "TYPE_BOOL",
    "return_finish_reason": "TYPE_BOOL",
    "return_logprobs": "TYPE_BOOL",
    "return_num_input_tokens": "TYPE_BOOL",
    "return_num_output_tokens": "TYPE_BOOL",
}
MODEL = "tensorrt_llm"
PROMPT_TOKENS = 4
"""The prompt's token count that every text-level model reports."""

Raw = Any
"""A message to send as it is."""
Outputs = Mapping[str, str | float | Sequence[float]]
"""Outputs by name: a text becomes BYTES, whole numbers INT32, other numbers FP32."""


def response(outputs: Outputs, *, final: bool = False) -> Raw:
    """Returns a response with these outputs."""
    answer = service_pb2.ModelStreamInferResponse()
    infer = answer.infer_response
    infer.model_name = MODEL
    infer.parameters["triton_final_response"].bool_param = final
    for name, value in outputs.items():
        values = [value] if isinstance(value, str | bytes | int | float) else list(value)
        kind, raw = _packed(values)
        infer.outputs.add(name=name, datatype=kind).shape.extend([1, len(values)])
        infer.raw_output_contents.append(raw)
    return answer


def _packed(values: Sequence[Any]) -> tuple[str, bytes]:
    if values and isinstance(values[0], str | bytes):
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        return "BYTES", b"".join(struct.pack("<I", len(data)) + data for data in encoded)
    form, kind = ("f", "FP32") if any(isinstance(value, float) for value in values) else ("i", "INT32")
    return kind, struct.pack(f"<{len(values)}{form}", *values)


def token_response(ids: Sequence[int], *, final: bool = False) -> Raw:
    """Returns a response of a token-level model."""
    return response({"sequence_length": [len(ids)], "output_ids": ids}, final=final)


def final_response() -> Raw:
    """Returns the empty final response."""
    answer = service_pb2.ModelStreamInferResponse()
    answer.infer_response.parameters["triton_final_response"].bool_param = True
    return answer


def input_ids_of(request: Raw) -> list[int]:
    """Returns the prompt in a request to a token-level model."""
    at = next(number for number, tensor in enumerate(request.inputs) if tensor.name == "input_ids")
    return memoryview(request.raw_input_contents[at]).cast("i").tolist()


def error_response(text: str) -> Raw:
    """Returns an in-band error."""
    return service_pb2.ModelStreamInferResponse(error_message=text)


def _counts(messages: Sequence[Sequence[int]], number: int) -> Outputs:
    return {"num_input_tokens": PROMPT_TOKENS, "num_output_tokens": len(messages[number])}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of model: its configuration, and the form in which it sends the messages of a play."""

    inputs: Mapping[str, str]
    outputs: Sequence[str]
    message: Callable[[Sequence[Sequence[int]], int], Raw]
    final: Callable[[], Raw] = final_response
    max_batch_size: int = 64
    is_ensemble: bool = False


TOKENS = Kind(INPUTS, ("sequence_length", "output_ids"), lambda messages, number: token_response(messages[number]))
ENSEMBLE = Kind(
    ENSEMBLE_INPUTS,
    ("text_output", "num_input_tokens", "num_output_tokens"),
    lambda messages, number: response({"text_output": as_text(messages[number]), **_counts(messages, number)}),
    is_ensemble=True,
)
LLM_API = Kind(
    LLM_API_INPUTS,
    ("text_output", "finish_reason"),
    lambda messages, number: response(
        {"text_output": "".join(map(as_text, messages[: number + 1])), "finish_reason": "None"}
    ),
    max_batch_size=0,
)
VLLM = Kind(
    VLLM_INPUTS,
    ("text_output", "finish_reason", "logprobs", "num_input_tokens", "num_output_tokens"),
    lambda messages, number: response(
        {"text_output": as_text(messages[number]), "finish_reason": "None", **_counts(messages, number)}
    ),
    final=lambda: response(
        {"text_output": "", "finish_reason": "stop", "num_input_tokens": PROMPT_TOKENS, "num_output_tokens": 0},
        final=True,
    ),
    max_batch_size=0,
)


@dataclass
class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """The behaviour of the server. Its members can be changed at any time.

    `script` has the parts of a streamed answer: raw messages, numbers (seconds of silence), or an Ending.
    """

    kind: Kind = TOKENS
    script: Sequence[Raw | float | Ending] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    steps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The models of an ensemble, each with its inputs."""
    step_parameters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stop_is_heard: bool = True
    """Whether requests to a step are answered."""
    parameters: dict[str, str] = field(default_factory=dict)
    decoupled: bool = True
    server_ready: bool = True
    model_ready: bool = True
    requests: list[Raw] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    """The metadata of each stream."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    config_calls: int = 0
    endpoint: str = ""
    server: Any = None

    def __post_init__(self) -> None:
        self.inputs = dict(self.kind.inputs)

    def play(self, play: Play) -> None:
        """Lets the next streams be answered with a play."""
        self.begun, self.stopped = play.begun, play.stopped
        said = [self.kind.message(play.messages, number) for number in range(len(play.messages))]
        self.script = [*(step for message in said for step in (play.pause_s, message)), play.ending]

    async def ServerReady(self, request: Raw, context: Any) -> Raw:
        return service_pb2.ServerReadyResponse(ready=self.server_ready)

    async def ModelReady(self, request: Raw, context: Any) -> Raw:
        return service_pb2.ModelReadyResponse(ready=self.model_ready and request.name == MODEL)

    async def ModelConfig(self, request: Raw, context: Any) -> Raw:
        self.config_calls += 1
        if request.name in self.steps:
            config = _step_config(request.name, self.steps[request.name])
            for name, value in self.step_parameters.get(request.name, {}).items():
                config.parameters[name].string_value = value
            return service_pb2.ModelConfigResponse(config=config)
        if request.name != MODEL:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.name}'")
        return service_pb2.ModelConfigResponse(config=self.config())

    def config(self) -> Raw:
        """Returns the model's ModelConfig."""
        types = model_config_pb2.DataType
        config = model_config_pb2.ModelConfig(name=MODEL, max_batch_size=self.kind.max_batch_size)
        if self.kind.is_ensemble:
            config.ensemble_scheduling.SetInParent()
            for name in self.steps:
                config.ensemble_scheduling.step.add(model_name=name)
        config.model_transaction_policy.decoupled = self.decoupled
        for name, data_type in self.inputs.items():
            config.input.add(name=name, data_type=types.Value(data_type), optional=True)
        for name in self.kind.outputs:
            config.output.add(name=name, data_type=types.Value("TYPE_INT32"))
        for name, value in self.parameters.items():
            config.parameters[name].string_value = value
        return config

    async def ModelStreamInfer(self, requests: AsyncIterator[Raw], context: Any) -> AsyncIterator[Raw]:
        self.metadata.append(dict(context.invocation_metadata()))
        try:
            async for request in requests:
                self.requests.append(request)
                self.begun.set()
                if request.model_name in self.steps:
                    if self.stop_is_heard:
                        yield final_response()
                    continue
                async for answer in self._answers(context):
                    yield answer
        except (asyncio.CancelledError, GeneratorExit):
            # gRPC cancels a handler that waits, and closes the generator of one whose message nobody takes.
            self.stopped.set()
            raise

    async def _answers(self, context: Any) -> AsyncIterator[Raw]:
        for step in self.script:
            match step:
                case float() | int():
                    await asyncio.sleep(step)
                case Ending.BY_ITSELF:
                    yield self.kind.final()
                case Ending.ERROR:
                    yield error_response("Error generating request: out of paper")
                case Ending.SILENCE:
                    await asyncio.Event().wait()
                case Ending.LOST:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed)")
                case _:
                    yield step


def _step_config(name: str, inputs: Mapping[str, str]) -> Raw:
    config = model_config_pb2.ModelConfig(name=name, max_batch_size=64)
    for input_name, data_type in inputs.items():
        config.input.add(name=input_name, data_type=model_config_pb2.DataType.Value(data_type))
    return config


@asynccontextmanager
async def fake_triton(kind: Kind = TOKENS) -> AsyncIterator[FakeTriton]:
    """Runs a fake on a free port of this machine."""
    fake = FakeTriton(kind)
    async with serving(fake):
        yield fake


@asynccontextmanager
async def serving(fake: FakeTriton) -> AsyncIterator[None]:
    """Runs a fake and sets its endpoint."""
    fake.server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(fake, fake.server)
    fake.endpoint = f"127.0.0.1:{fake.server.add_insecure_port('127.0.0.1:0')}"
    await fake.server.start()
    try:
        yield
    finally:
        await fake.server.stop(None)
