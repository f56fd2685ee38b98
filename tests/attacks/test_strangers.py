"""Callers without valid authentication, over as many calls and connections as they like: their connections end, and a
caller with a token at the same address is served, on open connections and on new ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame

from antiphon_core.errors import Unavailable
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ClientCredentials
from antiphon_core.rpc.intake import IntakeLimits
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import OPTIONS
from antiphon_http2.limits import STRANGER_ITEMS_MAX
from antiphon_http2.statuses import UNAVAILABLE, ErrorCode
from tests.support.guarded_store import ATTACKER, VICTIM, GuardedStore, guarded_store
from tests.support.http2_peer import GRPC, Fields, Http2Peer, message
from tests.support.waiting import WAIT_MAX_S

DESCRIBE = STORE.methods["DescribeSession"]
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
CALLS = STRANGER_ITEMS_MAX // 15
CONNECTIONS = 4
Make = Callable[[Http2Peer, int], bytes]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[GuardedStore]:
    options = replace(OPTIONS, connections_max=CONNECTIONS, caller_connections_max=CONNECTIONS // 2)
    async with guarded_store(tmp_path / "credentials", IntakeLimits(), role="writer", options=options) as store:
        yield store


async def ask(client: RpcClient) -> None:
    await client.call("DescribeSession", DESCRIBE.request.message(session_id="conv_1"), tenant="globex")


async def ask_over_a_new_connection(store: GuardedStore) -> None:
    address, credentials = f"127.0.0.1:{store.port}", ClientCredentials(token=VICTIM)
    client = RpcClient(address, STORE, unavailable=Unavailable, credentials=credentials)
    await ask(client)
    await client.close()


def fields(path: str, *more: tuple[str, str]) -> Fields:
    return [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "host:1"), *GRPC, *more]


def call(path: str, content: bytes | None, *more: tuple[str, str]) -> Make:
    def make(client: Http2Peer, stream_id: int) -> bytes:
        head = client.headers(stream_id, fields(path, *more), ends=content is None)
        return head if content is None else head + client.data(stream_id, message(content), ends=True)

    return make


FLOODS: dict[str, Make] = {
    "no token": call(DESCRIBE.path, b""),
    "wrong token": call(DESCRIBE.path, b"", ("authorization", "Bearer wrong-0123456789")),
    "unknown method": call("/antiphon.Unknown/Method", None),
    "health checks": call(CHECK, b""),
    "malformed health checks": call(CHECK, b"\xff"),
    "malformed headers": call(CHECK, None, ("connection", "close")),
}


async def end_of(port: int, make: Make) -> ErrorCode | None:
    """Floods one connection until the server ends it. Returns the code of its GOAWAY; None if that was lost with unread
    data of the socket."""
    client, code = Http2Peer(is_client=True), None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(client.hello() + b"".join(make(client, each) for each in range(1, 2 * CALLS, 2)))
    async with asyncio.timeout(WAIT_MAX_S):
        with suppress(ConnectionError):
            while data := await reader.read(2**16):
                ends = [frame.error_code for frame in client.read(data) if isinstance(frame, GoAwayFrame)]
                code = ErrorCode(ends[0]) if ends else code
    writer.close()
    return code


@pytest.mark.parametrize("kind", FLOODS)
async def test_flood_ends_its_connections_and_callers_with_a_token_are_served(served: GuardedStore, kind: str) -> None:
    await ask(served.victim)
    ends = [await end_of(served.port, FLOODS[kind]) for _ in range(6)]
    assert set(ends) <= {ErrorCode.ENHANCE_YOUR_CALM, None}
    assert ErrorCode.ENHANCE_YOUR_CALM in ends
    await ask(served.victim)
    await ask_over_a_new_connection(served)


@pytest.mark.parametrize("path", [WATCH, CHECK], ids=["watches", "unfinished checks"])
async def test_open_calls_on_all_connections_give_way_to_a_new_one(served: GuardedStore, path: str) -> None:
    async with AsyncExitStack() as stack:
        readers = []
        for _ in range(2 * CONNECTIONS):
            client = Http2Peer(is_client=True)
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            stack.callback(writer.close)
            head = client.hello() + client.headers(1, fields(path))
            writer.write(head + client.data(1, message(b"") if path == WATCH else b"\0"))
            await begun(client, reader, path)
            readers.append(reader)
        async with asyncio.timeout(WAIT_MAX_S):
            await ask(served.victim)
            await ask_over_a_new_connection(served)
            await ask(served.victim)


async def test_holder_of_one_token_has_half_of_all_connections(served: GuardedStore) -> None:
    """Each connection has a call that lasts: one whose request does not come."""
    head = fields(DESCRIBE.path, ("authorization", f"Bearer {ATTACKER}"), ("antiphon-tenant", "acme"))
    ended: list[str] = []
    async with AsyncExitStack() as stack:
        for _ in range(2 * CONNECTIONS):
            client = Http2Peer(is_client=True)
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            stack.callback(writer.close)
            writer.write(client.hello() + client.headers(1, head) + client.ping())
            first = await _statuses(client, reader)
            writer.write(client.ping())  # behind the handler, which has run by its answer
            ended += first or await _statuses(client, reader)
        async with asyncio.timeout(WAIT_MAX_S):
            await ask(served.victim)
            await ask_over_a_new_connection(served)
    assert ended == [str(UNAVAILABLE)] * (2 * CONNECTIONS - CONNECTIONS // 2)


async def _statuses(client: Http2Peer, reader: asyncio.StreamReader) -> list[str]:
    """Waits for the answer to a ping, or the end of a call. Returns the statuses of calls that have ended."""
    frames: list[Frame] = []
    async with asyncio.timeout(WAIT_MAX_S):
        while not any(isinstance(each, PingFrame | HeadersFrame) for each in frames):
            frames = client.read(await reader.read(2**16))
    return [client.decode(each.data)["grpc-status"] for each in frames if isinstance(each, HeadersFrame)]


async def begun(client: Http2Peer, reader: asyncio.StreamReader, path: str) -> None:
    """Waits for the settings of the server, and for the first answer of a watch."""
    seen: set[type] = set()
    async with asyncio.timeout(WAIT_MAX_S):
        while not seen or (path == WATCH and DataFrame not in seen):
            seen |= {type(frame) for frame in client.read(await reader.read(2**16))}
