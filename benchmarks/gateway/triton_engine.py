"""A fake token-level Triton: the `tensorrt_llm` signature on grpc.aio, with messages that were serialized beforehand.

    python -m benchmarks.gateway.triton_engine --port 9500 --tokenizer /models/smollm2/tokenizer.json

It has one model for each way to send: `full_speed` an id per message as fast as it can, `paced` an id each 20 ms, two
that are slower, `batched` 16 ids per message at full speed. A paced model sends as a server does that batches in
flight: each step brings an id of all its streams. The slower ones stand for several servers, whose steps are spread.
The ids are those of an English text, and the last one ends the generation.
"""

from __future__ import annotations

import argparse
import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import floor
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import uvloop
from tokenizers import Tokenizer
from tritonclient.grpc import model_config_pb2, service_pb2

from benchmarks.gateway.texts import STORY
from tests.support.fake_triton import INPUTS, final_response, token_response
from tests.support.ports import HOST
from tests.support.served_models import END_ID

REQUEST_BYTES_MAX = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Manner:
    """The pace and the batch size with which a model sends its ids."""

    step_s: float = 0
    servers: int = 1
    ids_per_message: int = 1

    def due_s(self, now_s: float, stream: int) -> float:
        """The next step after `now_s` of the server that runs the stream."""
        phase_s = self.step_s * (stream % self.servers) / self.servers
        return (floor((now_s - phase_s) / self.step_s) + 1) * self.step_s + phase_s


MODELS = {
    "full_speed": Manner(),
    "paced": Manner(step_s=0.02),
    "each_80_ms": Manner(step_s=0.08, servers=4),
    "each_320_ms": Manner(step_s=0.32, servers=16),
    "batched": Manner(ids_per_message=16),
}
_FINAL = final_response().SerializeToString()
_END = token_response([END_ID]).SerializeToString()


class Messages:
    """The messages of a generation of any length."""

    def __init__(self, story: Sequence[int], ids_per_message: int) -> None:
        whole = len(story) // ids_per_message * ids_per_message
        starts = range(0, whole, ids_per_message)
        self._ids_per_message = ids_per_message
        self._ready = [token_response(story[start : start + ids_per_message]).SerializeToString() for start in starts]

    def of(self, tokens: int) -> Iterator[bytes]:
        """Yields the messages for so many ids, the end id included."""
        for number in range((tokens - 1) // self._ids_per_message):
            yield self._ready[number % len(self._ready)]
        yield _END
        yield _FINAL


class Handler(grpc.GenericRpcHandler):
    """Answers with prepared bytes. Only requests of generations are parsed."""

    def __init__(self, story: Sequence[int]) -> None:
        self._messages = {name: Messages(story, manner.ids_per_message) for name, manner in MODELS.items()}
        self._streams = count()
        self._answers: dict[str, Callable[[bytes], bytes]] = {
            "ServerReady": lambda _: bytes(service_pb2.ServerReadyResponse(ready=True).SerializeToString()),
            "ModelReady": lambda _: bytes(service_pb2.ModelReadyResponse(ready=True).SerializeToString()),
            "ModelConfig": _config,
        }

    def service(self, details: Any) -> Any:
        method = details.method.rsplit("/", 1)[1]
        if method == "ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(self._generate)
        answer = self._answers.get(method)
        return None if answer is None else grpc.unary_unary_rpc_method_handler(_unary(answer))

    async def _generate(self, requests: AsyncIterator[bytes], context: Any) -> None:
        async for data in requests:
            request = service_pb2.ModelInferRequest.FromString(data)
            manner, now_s = MODELS[request.model_name], asyncio.get_running_loop().time
            due_s = manner.due_s(now_s(), next(self._streams)) if manner.step_s else 0
            for message in self._messages[request.model_name].of(_tokens(request)):
                if manner.step_s and message is not _FINAL:
                    await asyncio.sleep(due_s - now_s())
                    due_s += manner.step_s
                await context.write(message)


def _unary(answer: Callable[[bytes], bytes]) -> Any:
    async def behaviour(request: bytes, _context: Any) -> bytes:
        return answer(request)

    return behaviour


def _tokens(request: Any) -> int:
    """Returns the value of `request_output_len`."""
    number, tensor = next(
        (number, each) for number, each in enumerate(request.inputs) if each.name == "request_output_len"
    )
    if request.raw_input_contents:
        return int(struct.unpack("<i", request.raw_input_contents[number])[0])
    return int(tensor.contents.int_contents[0])


def _config(data: bytes) -> bytes:
    types = model_config_pb2.DataType
    answer = service_pb2.ModelConfigResponse()
    config = answer.config
    config.name = service_pb2.ModelConfigRequest.FromString(data).name
    config.max_batch_size = 64
    config.model_transaction_policy.decoupled = True
    for name, data_type in INPUTS.items():
        config.input.add(name=name, data_type=types.Value(data_type), optional=True)
    for name in ("output_ids", "sequence_length"):
        config.output.add(name=name, data_type=types.Value("TYPE_INT32"))
    return bytes(answer.SerializeToString())


async def _serve(port: int, tokenizer: Path) -> None:
    story = Tokenizer.from_file(str(tokenizer)).encode(STORY).ids
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", REQUEST_BYTES_MAX)])
    server.add_generic_rpc_handlers((Handler(story),))
    server.add_insecure_port(f"{HOST}:{port}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    options = parser.parse_args()
    uvloop.run(_serve(options.port, options.tokenizer))


if __name__ == "__main__":
    main()
