"""Measures the least cost of reading ModelStreamInfer in Python: a lean HTTP/2 reader on uvloop, messages parsed by
protobuf. With --writes, each read of a stream is also written to a connection of its own, as a delta to its client.

    python -m benchmarks.gateway.floor --port 9500 --model full_speed --streams 64 --tokens 200

The program prints processor time per message and the time between messages as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvloop
from tritonclient.grpc import service_pb2

from antiphon_core.jsons import dumps
from benchmarks.gateway.http2_reader import Reader
from tests.support.ports import HOST

_DELTA = b"f5\r\n" + b"x" * 245 + b"\r\n"
_CLIENTS = f"""
import asyncio
async def main():
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "{HOST}", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""
"""A program that reads all connections."""
Write = Callable[[bytes], object]


@contextmanager
def _clients() -> Iterator[int]:
    """Runs a process that reads all connections to a port."""
    process = subprocess.Popen([sys.executable, "-c", _CLIENTS], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def _discard(_data: bytes) -> None:
    """Drops a delta, where only reading is measured."""


@dataclass(slots=True)
class Count:
    """The messages of one round's streams, and the gaps between them."""

    messages: int = 0
    gaps_s: list[float] = field(default_factory=list)

    async def stream(self, reader: Reader, request: bytes, write: Write) -> None:
        """Reads one stream to its end."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        last_s = 0.0

        def on_messages(messages: Sequence[bytes] | None) -> None:
            nonlocal last_s
            if messages is None:
                ended.set_result(None)
                return
            for message in messages:
                service_pb2.ModelStreamInferResponse.FromString(message)
            write(_DELTA)
            now = time.perf_counter()
            if last_s:
                self.gaps_s.append(now - last_s)
                self.gaps_s.extend([0.0] * (len(messages) - 1))
            last_s = now
            self.messages += len(messages)

        reader.call(request, on_messages)
        await ended


async def measure(
    port: int, model: str, writes: Sequence[Write], *, tokens: int, repeat: int, rounds: int
) -> dict[str, float]:
    """Returns the best of some rounds, after a warm-up round. In each round, one stream for each of `writes` runs
    `repeat` times."""
    _, reader = await asyncio.get_running_loop().create_connection(Reader, HOST, port)
    request = _request(model, tokens)
    best_us, gap_ms = float("inf"), float("inf")
    for _ in range(rounds + 1):
        count, begun = Count(), time.process_time()
        for _ in range(repeat):
            await asyncio.gather(*(count.stream(reader, request, write) for write in writes))
        best_us = min(best_us, (time.process_time() - begun) / count.messages * 1e6)
        gaps = sorted(count.gaps_s)
        gap_ms = min(gap_ms, gaps[len(gaps) * 99 // 100] * 1e3)
    return {"cpu_us_per_message": best_us, "gap_p99_ms": gap_ms}


def _request(model: str, tokens: int) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model, id="floor")
    request.inputs.add(name="request_output_len", datatype="INT32").shape.extend([1, 1])
    request.raw_input_contents.append(struct.pack("<i", tokens))
    return bytes(request.SerializeToString())


async def measure_writing(
    port: int, model: str, streams: int, *, tokens: int, repeat: int, rounds: int
) -> dict[str, float]:
    """Does what `measure` does, and writes to connections of a process of their own."""
    loop = asyncio.get_running_loop()
    with _clients() as clients_port:
        made = [await loop.create_connection(asyncio.Protocol, HOST, clients_port) for _ in range(streams)]
        writes = [transport.write for transport, _ in made]
        return await measure(port, model, writes, tokens=tokens, repeat=repeat, rounds=rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--writes", action="store_true")
    options = parser.parse_args()
    load = {"tokens": options.tokens, "repeat": options.repeat, "rounds": options.rounds}
    if options.writes:
        found = measure_writing(options.port, options.model, options.streams, **load)
    else:
        found = measure(options.port, options.model, [_discard] * options.streams, **load)
    print(dumps(uvloop.run(found)).decode())


if __name__ == "__main__":
    main()
