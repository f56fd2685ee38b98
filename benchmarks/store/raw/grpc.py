"""Bare gRPC: a server in another process that answers with the requested number of bytes.

python -m benchmarks.store.raw.grpc        # serves, and prints its port
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import grpc

from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.ports.store import Record
from benchmarks.measuring import Call
from benchmarks.store.subjects import SESSION_TURNS, response

SMALL_BYTES = 100  # the size of an id, a timestamp or a lease
RECORD_BYTES = response().size_bytes
SIZE_BYTES = 4  # of the number at the start of every request, the length of its answer

_OPTIONS = [
    ("grpc.max_receive_message_length", RPC_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", RPC_MESSAGE_BYTES_MAX),
]


class BareGrpc:
    """Implements `sides.Side` with as many messages as the store's, of equal length."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/bare.Bare/Ask")

    async def fill(self, _line: int, _records: Sequence[Record]) -> None:
        """Stores nothing."""

    def put(self) -> Call:
        return self._call(RECORD_BYTES, SMALL_BYTES)

    def get(self) -> Call:
        return self._call(SMALL_BYTES, RECORD_BYTES)

    def chain(self, depth: int) -> Call:
        return self._call(SMALL_BYTES, depth * RECORD_BYTES)

    def fork(self, length: int) -> Call:
        del length
        return self._call(SMALL_BYTES, SMALL_BYTES)

    def turn(self) -> Call:
        begin = self._call(SMALL_BYTES, SESSION_TURNS // 2 * RECORD_BYTES)
        commit = self._call(RECORD_BYTES, SMALL_BYTES)

        async def turn() -> None:
            await begin()
            await commit()

        return turn

    def _call(self, question_bytes: int, answer_bytes: int) -> Call:
        question = answer_bytes.to_bytes(SIZE_BYTES) + bytes(question_bytes)

        async def call() -> object:
            return await self._ask(question)

        return call


@contextmanager
def bare_server() -> Iterator[str]:
    """Starts the server. Yields its address."""
    command = [sys.executable, "-m", "benchmarks.store.raw.grpc"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def serve() -> None:
    async def answer(question: bytes, _context: object) -> bytes:
        return bytes(int.from_bytes(question[:SIZE_BYTES]))

    server = grpc.aio.server(options=_OPTIONS)
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Bare", {"Ask": handler}),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve())
