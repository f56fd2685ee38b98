"""Measures the cost of reading a message of one token: the lean client (antiphon_http2) beside grpc.aio.

The server runs in its own process. Figures are processor time of the reading process, the best of some runs.

    python -m benchmarks.http2_bench
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import uvloop

from antiphon_http2.client.client import GrpcStreams
from tests.support.children import start_child
from tests.support.stream_server import HOST, StreamServer, serving

PATH = "/bench.Streams/tokens"
MESSAGES = 2_000
STREAMS = (1, 16, 64)
RUNS = 5


async def serve() -> None:
    async with serving(StreamServer()) as (running, port):
        print(port, flush=True)
        await running.wait_for_termination()


async def read_lean(streams: GrpcStreams) -> int:
    count = 0

    def receive(messages: Sequence[bytes]) -> None:
        nonlocal count
        count += len(messages)

    call = await streams.start(PATH, b"%d" % MESSAGES, receive)
    await call.wait_end()
    return count


async def read_grpc(channel: grpc.aio.Channel) -> int:
    call: Any = channel.stream_stream(PATH)()
    await call.write(b"%d" % MESSAGES)
    await call.done_writing()
    count = 0
    while await call.read() is not grpc.aio.EOF:
        count += 1
    return count


async def cost_us(read: Callable[[], Awaitable[int]], at_once: int) -> float:
    costs = []
    for _ in range(RUNS):
        started = time.process_time()
        counts = await asyncio.gather(*(read() for _ in range(at_once)))
        costs.append((time.process_time() - started) / sum(counts) * 1e6)
        assert counts == [MESSAGES] * at_once
    return min(costs)


async def main(port: int) -> None:
    lean = GrpcStreams(f"{HOST}:{port}")
    async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
        print("streams   grpc.aio     lean   ratio")
        for at_once in STREAMS:
            baseline = await cost_us(lambda: read_grpc(channel), at_once)
            subject = await cost_us(lambda: read_lean(lean), at_once)
            print(f"{at_once:>7} {baseline:>7.1f} us {subject:>5.1f} us {subject / baseline:>7.2f}")
    await lean.close()


if __name__ == "__main__":
    if "serve" in sys.argv:
        asyncio.run(serve())
    else:
        server = start_child(
            [sys.executable, "-m", "benchmarks.http2_bench", "serve"], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        try:
            uvloop.run(main(int(server.stdout.readline())))
        finally:
            server.kill()
            server.wait()
