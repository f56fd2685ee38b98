"""Measures the hop between two processes: antiphon_http2 beside grpc.aio, in turns.

Streams send a message of 260 bytes each 20 ms, as tokens come, and the lean client reads them of either server. Unary
calls, 16 at a time, go from one client: first of grpc.aio to both servers, then of each kind to its own server. Figures
are processor time of a message or call in the server's process and in the client's, the least of some runs; the ratio
is that of their sums.

    python -m benchmarks.hop_bench
"""

from __future__ import annotations

import asyncio
import random
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import psutil
import uvloop

from antiphon_http2.client.client import GrpcStreams
from antiphon_http2.server.call import ServerCall
from antiphon_http2.server.server import GrpcServer
from tests.support.certificates import Certificate, authority, signed_by
from tests.support.children import start_child

HOST = "127.0.0.1"
MESSAGE = b"x" * 260
MESSAGES = 150
PACE_S = 0.02
CALLS = 1_500
CALLS_AT_ONCE = 16
RUNS = 3

Cost = tuple[float, float]  # of the server and of the client, in us


def paced(send: Callable[[bytes], None]) -> asyncio.Future[None]:
    """Calls `send` with each message of a stream, at its pace."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    left = MESSAGES

    def tick() -> None:
        nonlocal left
        send(MESSAGE)
        left -= 1
        if left:
            loop.call_later(PACE_S, tick)
        else:
            done.set_result(None)

    loop.call_later(random.uniform(0, PACE_S), tick)
    return done


async def serve_lean(pair: Certificate | None) -> None:
    async def tokens(call: ServerCall) -> None:
        call.authenticate()
        await call.next_size()
        await call.receive()
        await paced(call.send)

    async def echo(call: ServerCall) -> None:
        call.authenticate()
        await call.next_size()
        call.send(await call.receive())

    context = None
    if pair is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
    server = GrpcServer(
        {"/bench.Hop/tokens": tokens, "/bench.Hop/echo": echo}.get,
        read_tls=(lambda: context) if context is not None else None,
    )
    print(await server.listen(HOST, 0), flush=True)
    await asyncio.Event().wait()


async def serve_grpc(pair: Certificate | None) -> None:
    async def tokens(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        paced(waiting.put_nowait).add_done_callback(lambda _: waiting.put_nowait(None))
        while (message := await waiting.get()) is not None:
            yield message

    async def echo(request: bytes, _context: Any) -> bytes:
        return request

    server = grpc.aio.server()
    handlers: dict[str, Any] = {
        "tokens": grpc.unary_stream_rpc_method_handler(tokens),
        "echo": grpc.unary_unary_rpc_method_handler(echo),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Hop", handlers),))
    if pair is None:
        port = server.add_insecure_port(f"{HOST}:0")
    else:
        files = [(pair.key.read_bytes(), pair.cert.read_bytes())]
        port = server.add_secure_port(f"{HOST}:0", grpc.ssl_server_credentials(files))
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def measured(pid: int, work: Callable[[], Awaitable[object]], count: int) -> Cost:
    process = psutil.Process(pid)
    costs = []
    for _ in range(RUNS):
        theirs_s, own_s = sum(process.cpu_times()[:2]), time.process_time()
        await work()
        own_us = (time.process_time() - own_s) / count * 1e6
        costs.append(((sum(process.cpu_times()[:2]) - theirs_s) / count * 1e6, own_us))
    return min(costs, key=sum)


async def cost_of_tokens(port: int, pid: int, streams: int, tls: ssl.SSLContext | None) -> Cost:
    client = GrpcStreams(f"{HOST}:{port}", read_tls=(lambda: tls) if tls is not None else None)

    async def read_all() -> None:
        calls = [await client.start("/bench.Hop/tokens", b"", lambda _messages: None) for _ in range(streams)]
        for call in calls:
            await call.wait_end()

    try:
        return await measured(pid, read_all, streams * MESSAGES)
    finally:
        await client.close()


async def cost_of_calls(port: int, pid: int) -> Cost:
    async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
        echo: Any = channel.unary_unary("/bench.Hop/echo")

        async def caller() -> None:
            for _ in range(CALLS // CALLS_AT_ONCE):
                await echo(MESSAGE, metadata=(("antiphon-tenant", "acme"), ("x-request-id", "req_1")), timeout=60)

        async def call_all() -> None:
            await asyncio.gather(*(caller() for _ in range(CALLS_AT_ONCE)))

        return await measured(pid, call_all, CALLS)


async def cost_of_lean_calls(port: int, pid: int) -> Cost:
    client = GrpcStreams(f"{HOST}:{port}")
    metadata = (("antiphon-tenant", "acme"), ("x-request-id", "req_1"))

    async def caller() -> None:
        for _ in range(CALLS // CALLS_AT_ONCE):
            answers: list[bytes] = []
            call = await client.start("/bench.Hop/echo", MESSAGE, answers.extend, metadata=metadata, timeout_s=60)
            await call.wait_end()

    async def call_all() -> None:
        await asyncio.gather(*(caller() for _ in range(CALLS_AT_ONCE)))

    try:
        return await measured(pid, call_all, CALLS)
    finally:
        await client.close()


Measure = Callable[[int, int], Awaitable[Cost]]


def tokens(streams: int, tls: ssl.SSLContext | None) -> Measure:
    return lambda port, pid: cost_of_tokens(port, pid, streams, tls)


async def on_server(kind: str, folder: str, measure: Measure) -> Cost:
    """Measures against a server in a process of its own; with a folder of certificates it serves TLS."""
    command = [sys.executable, "-m", "benchmarks.hop_bench", kind, *([folder] if folder else [])]
    server = start_child(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        return await measure(int(server.stdout.readline()), server.pid)
    finally:
        server.kill()
        server.wait()


async def main() -> None:
    print(f"{'':<28}{'grpc.aio':>22}{'lean':>22}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        ca = authority(Path(folder), "ca")
        signed_by(ca, Path(folder), "server")
        tls = ssl.create_default_context(cafile=str(ca.cert))
        rows: list[tuple[str, str, Measure, Measure]] = [
            ("64 streams, 20 ms", "", tokens(64, None), tokens(64, None)),
            ("256 streams, 20 ms", "", tokens(256, None), tokens(256, None)),
            ("1,024 streams, 20 ms", "", tokens(1_024, None), tokens(1_024, None)),
            ("64 streams, 20 ms, TLS", folder, tokens(64, tls), tokens(64, tls)),
            ("256 streams, 20 ms, TLS", folder, tokens(256, tls), tokens(256, tls)),
            ("unary calls, 16 at once", "", cost_of_calls, cost_of_calls),
            ("unary calls, own clients", "", cost_of_calls, cost_of_lean_calls),
        ]
        for name, certificates, measure_baseline, measure_subject in rows:
            baseline = await on_server("grpc", certificates, measure_baseline)
            subject = await on_server("lean", certificates, measure_subject)
            print(f"{name:<28}{text_of(baseline):>22}{text_of(subject):>22}{sum(subject) / sum(baseline):>8.2f}")


def text_of(cost: Cost) -> str:
    return f"{cost[0]:.1f} + {cost[1]:.1f} us"


if __name__ == "__main__":
    kind, *folder = sys.argv[1:] or [""]
    pair = Certificate(Path(folder[0]) / "server.pem", Path(folder[0]) / "server.key") if folder else None
    uvloop.run({"lean": lambda: serve_lean(pair), "grpc": lambda: serve_grpc(pair)}.get(kind, main)())
