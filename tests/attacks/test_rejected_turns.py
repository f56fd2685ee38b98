"""Rejected requests with large bodies. Nothing of them is left to the garbage collector, which runs too late: 55
rejected turns of 9 MB each held 1 GB until then. So the collector is off, and weak references show what is kept."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import struct
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from antiphon_core.errors import (
    AntiphonError,
    ContextLengthExceeded,
    EngineFault,
    EngineOverloaded,
    ModelNotFound,
    Unavailable,
)
from antiphon_core.jsons import Object, dumps
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_core.ports.translator import Receive, Turn
from antiphon_edge.http import http_server
from tests.support.edge import RunningEdge, running_edge
from tests.support.raw_http import exchange, head, post
from tests.support.socket_client import held_responses
from tests.support.waiting import until

LARGE = "x" * 300_000
ROUNDS, AT_ONCE = 3, 4
KEPT_BYTES_MAX = 4 * 2**10
"""For each request, of small objects of the client in this process, whose sockets wait for the collector."""
RESET = struct.pack("ii", 1, 0)  # struct linger
CLOSE = {"Connection": "close"}
"""An open connection refers to its last request until the next one."""
BODIES: dict[str, tuple[str, Object | bytes]] = {
    "no JSON": ("/v1/responses", LARGE.encode()),
    "no object": ("/v1/responses", dumps([LARGE])),
    "unknown parameter": ("/v1/responses", {"nonsense": 1}),
    "wrong type": ("/v1/responses", {"temperature": "x", "stream": True}),
    "wrong item": ("/v1/responses", {"input": [{"type": "message", "role": "x", "content": LARGE}]}),
    "no such response": ("/v1/responses", {"previous_response_id": "resp_" + "0" * 40}),
    "no such conversation": ("/v1/responses", {"conversation": "conv_" + "0" * 40}),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": LARGE}], "nonsense": 1}),
    "compaction": ("/v1/responses/compact", {"nonsense": 1}),
    "conversation": ("/v1/conversations", {"items": [{"type": "message", "role": "x", "content": LARGE}]}),
    "too large": ("/v1/responses", b" " * (BODY_BYTES_MAX + 1)),
}
ERRORS: tuple[Exception, ...] = (
    ModelNotFound.of("m"),
    ContextLengthExceeded.of(input_tokens=5, context_length=3),
    EngineOverloaded("busy", retry_after_ms=5),
    EngineFault("broken"),
    Unavailable("away"),
)


class Kept:
    """Weak references to requests, turns and errors that were made. `alive` are those that something still refers
    to."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[object]] = []

    def note(self, made: object) -> None:
        self._made.append(weakref.ref(made))

    @property
    def count(self) -> int:
        return len(self._made)

    def alive(self) -> list[str]:
        return [type(made).__name__ for each in self._made if (made := each()) is not None]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    noted = Kept()
    make_error, make_request = AntiphonError.__init__, web.Application._make_request
    connection_made = http_server._Connection.connection_made

    def noted_error(error: AntiphonError, *args: Any, **facts: Any) -> None:
        noted.note(error)
        make_error(error, *args, **facts)

    def noted_request(app: web.Application, *args: Any, **options: Any) -> web.Request:
        request = make_request(app, *args, **options)
        noted.note(request)
        return request

    def noted_connection(connection: http_server._Connection, transport: asyncio.BaseTransport) -> None:
        noted.note(connection)
        connection_made(connection, transport)

    monkeypatch.setattr(AntiphonError, "__init__", noted_error)
    monkeypatch.setattr(http_server._Connection, "connection_made", noted_connection)
    monkeypatch.setattr(web.Application, "_make_request", noted_request)
    gc.collect()
    gc.disable()
    try:
        yield noted
    finally:
        gc.enable()


@pytest.fixture
async def edge(kept: Kept) -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running


async def require_nothing_kept(kept: Kept) -> None:
    assert kept.count
    await until(lambda: not kept.alive(), "nothing is left to the garbage collector")


def body_of(members: Object | bytes) -> bytes:
    return members if isinstance(members, bytes) else dumps({"model": "m", "input": LARGE} | members)


async def reject_each_body(edge: RunningEdge, encoding: str = "identity") -> None:
    for name, (path, members) in BODIES.items():
        body = body_of(members)
        sent = gzip.compress(body) if encoding == "gzip" else body
        refused = await edge.ask("POST", path, BytesIO(sent), headers=CLOSE | {"Content-Encoding": encoding})
        assert refused.status in (400, 404, 413), name


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_rejected_bodies_are_freed_at_once(edge: RunningEdge, kept: Kept, encoding: str) -> None:
    await reject_each_body(edge, encoding)
    await require_nothing_kept(kept)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("members", [{}, {"stream": True}, {"store": False}], ids=str)
async def test_turns_that_the_translator_rejects_are_freed_at_once(
    edge: RunningEdge, kept: Kept, error: Exception, members: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def generate(_turn: Turn, _receive: Receive, **_options: Any) -> None:
        raise type(error)(*error.args)

    monkeypatch.setattr(edge.translator, "generate", generate)
    refused = await edge.ask("POST", "/v1/responses", BytesIO(body_of(members)), headers=CLOSE)
    assert refused.status >= 400
    await require_nothing_kept(kept)


async def test_turns_that_fail_in_their_stream_are_freed_at_once(edge: RunningEdge, kept: Kept) -> None:
    edge.translator.fault = EngineFault("broken")
    for stream in (True, False):
        await edge.ask("POST", "/v1/responses", BytesIO(body_of({"stream": stream})), headers=CLOSE)
    edge.translator.fault = None
    await require_nothing_kept(kept)


async def test_messages_that_are_rejected_over_a_websocket_are_freed_at_once(edge: RunningEdge, kept: Kept) -> None:
    create = {"type": "response.create", "model": "m", "input": LARGE}
    async with edge.http.session.ws_connect(edge.http.url + "/v1/responses") as socket:
        for message in ({"nonsense": 1}, {"previous_response_id": "resp_" + "0" * 40}, {"model": "other"}):
            await socket.send_bytes(dumps(create | message))
            await socket.receive_json()
            await socket.send_str(dumps(create | message).decode())
            await socket.receive_json()
        await until(lambda: {*kept.alive()} == {"_Connection", "Request"}, "only the open connection is left")


CONNECTIONS = {
    "no HTTP": b"nonsense\r\n\r\n",
    "too many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    "malformed chunk": head(b"POST /v1/responses", b"Transfer-Encoding: chunked") + b"5\r\nhello\r\nzz\r\n",
    "length above the limit": head(b"POST /v1/responses", b"Content-Length: 99000000") + LARGE.encode(),
    "one answer": post(b"{}", b"Connection: close"),
}


@pytest.mark.parametrize("kind", CONNECTIONS)
async def test_connections_that_the_server_closes_are_freed_at_once(edge: RunningEdge, kept: Kept, kind: str) -> None:
    await exchange(edge.http.url, CONNECTIONS[kind])
    await require_nothing_kept(kept)


@pytest.mark.parametrize("stream", [True, False])
async def test_turns_whose_client_disconnects_are_freed_at_once(edge: RunningEdge, kept: Kept, stream: bool) -> None:
    url = URL(edge.http.url)
    edge.translator.hang = True
    _reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(post(body_of({"stream": stream})))
    await until(lambda: bool(edge.translator.turns), "the turn runs")
    writer.close()
    await edge.translator.closed.wait()
    await require_nothing_kept(kept)


async def test_turn_whose_write_fails_is_freed_at_once(edge: RunningEdge, kept: Kept) -> None:
    release, loop, url = held_responses(edge), asyncio.get_running_loop(), URL(edge.http.url)
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await loop.sock_connect(client, (url.host, url.port))
        await loop.sock_sendall(client, post(body_of({"stream": True})))
        answered = b""
        while b"response.in_progress" not in answered:
            answered += await loop.sock_recv(client, 2**20)
    release.set()  # the server writes before it reads that the connection was reset
    await edge.translator.closed.wait()
    await require_nothing_kept(kept)


async def test_rejected_bodies_leave_no_memory_behind(edge: RunningEdge, kept: Kept) -> None:
    """Bytes and texts have no weak references, so what Python has allocated is measured. A kind of body that is kept
    would leave 3.6 MB."""
    await reject_each_body(edge)
    tracemalloc.start()
    try:
        for _ in range(ROUNDS):
            await asyncio.gather(*(reject_each_body(edge) for _ in range(AT_ONCE)))
        most_bytes = ROUNDS * AT_ONCE * len(BODIES) * KEPT_BYTES_MAX
        await until(lambda: tracemalloc.get_traced_memory()[0] < most_bytes, "the memory is free")
        assert tracemalloc.get_traced_memory()[1] > AT_ONCE * len(LARGE)
    finally:
        tracemalloc.stop()
    await require_nothing_kept(kept)
