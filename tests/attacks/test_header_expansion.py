"""Attack 19: headers that expand, and frames that cost more than they carry, without a token.

500 KB of HPACK that refer to one long value are a head of 90 MB. grpcio's server decompressed all of it before it
looked at its limit of 16 KiB: 20 such heads took 1.8 GB, and every other call waited for 15 s.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hyperframe.frame import ContinuationFrame, GoAwayFrame, HeadersFrame

from antiphon_core.rpc.intake import IntakeLimits
from antiphon_core.rpc.methods import STORE
from antiphon_http2.limits import CONTROL_ITEMS_MAX, STREAMS_ITEMS_MAX
from antiphon_http2.statuses import ErrorCode
from tests.support.guarded_store import GuardedStore, guarded_store
from tests.support.http2_peer import GRPC, REQUEST, Http2Peer
from tests.support.waiting import WAIT_MAX_S

BLOCK_BYTES = 500_000
HEADS = 20
HELD_BYTES_MAX = 8 * 2**20  # of 1.8 GB

Attack = Callable[[Http2Peer], bytes]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[GuardedStore]:
    async with guarded_store(tmp_path / "credentials", IntakeLimits(), role="writer") as store:
        yield store


async def ask(store: GuardedStore) -> None:
    """Sends a request of the victim, which must be answered within the deadline of its method."""
    sent = STORE.methods["DescribeSession"].request.message(session_id="conv_1")
    await store.victim.call("DescribeSession", sent, tenant="globex")


def expanding(client: Http2Peer) -> bytes:
    value = client.headers(1, [*REQUEST, *GRPC, ("x", "y" * 3_900)])[9:]
    block = value + b"\xbe" * BLOCK_BYTES
    pieces = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
    frames = [HeadersFrame(1, pieces[0], flags=["END_STREAM"]).serialize()]
    frames += [ContinuationFrame(1, piece).serialize() for piece in pieces[1:-1]]
    return b"".join([*frames, ContinuationFrame(1, pieces[-1], flags=["END_HEADERS"]).serialize()])


def expanding_in_a_small_block(client: Http2Peer) -> bytes:
    value = client.headers(1, [*REQUEST, *GRPC, ("x", "y" * 3_900)])[9:]
    return HeadersFrame(1, value + b"\xbe" * 12_000, flags=["END_HEADERS", "END_STREAM"]).serialize()


def many_fields(client: Http2Peer) -> bytes:
    block = client.headers(1, [*REQUEST, *GRPC])[9:] + b"\x82" * 16_000
    return HeadersFrame(1, block, flags=["END_HEADERS", "END_STREAM"]).serialize()


def rapid_reset(client: Http2Peer) -> bytes:
    calls = range(1, 2 * CONTROL_ITEMS_MAX, 2)
    calls_and_resets = (client.request(each) + client.reset(each, ErrorCode.CANCEL) for each in calls)
    return b"".join(calls_and_resets) + client.goaway(0)  # some are rejected before their reset: the flood may pass


def pings(client: Http2Peer) -> bytes:
    return client.ping() * (2 * CONTROL_ITEMS_MAX)


async def end_of(port: int, attack: Attack) -> ErrorCode | None:
    """Attacks over one connection until the server ends it. Returns the code of its GOAWAY; None if that was lost,
    because the server closed a socket with unread data."""
    client = Http2Peer(is_client=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(client.hello() + attack(client))
    code = None
    async with asyncio.timeout(WAIT_MAX_S):
        with suppress(ConnectionError):
            while data := await reader.read(2**16):
                ends = [frame.error_code for frame in client.read(data) if isinstance(frame, GoAwayFrame)]
                code = ErrorCode(ends[0]) if ends else code
    writer.close()
    return code


async def test_calls_without_a_token_wait_behind_the_calls_of_others(served: GuardedStore) -> None:
    """Four connections that sent calls without a pause delayed every other call beyond its deadline of five seconds."""
    path = STORE.methods["DescribeSession"].path
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "host:1"), *GRPC]
    flood, calls = Http2Peer(is_client=True), range(1, 2 * STREAMS_ITEMS_MAX, 2)
    await ask(served)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(flood.hello() + b"".join(flood.headers(each, fields, ends=True) for each in calls))
    answers = 0
    asked: asyncio.Task[None] | None = None
    while asked is None or not asked.done():
        async with asyncio.timeout(WAIT_MAX_S):
            frames = flood.read(await reader.read(2**16))
        answers += sum(isinstance(frame, HeadersFrame) for frame in frames)
        asked = asked or asyncio.create_task(ask(served))
    await asked
    assert answers < len(calls)
    writer.close()


@pytest.mark.parametrize("attack", [expanding, expanding_in_a_small_block, many_fields, rapid_reset, pings])
async def test_attack_ends_its_connection_and_costs_others_nothing(served: GuardedStore, attack: Attack) -> None:
    await ask(served)
    tracemalloc.start()
    try:
        before_bytes, _ = tracemalloc.get_traced_memory()
        for _ in range(HEADS if "expanding" in attack.__name__ else 2):
            assert await end_of(served.port, attack) in (ErrorCode.ENHANCE_YOUR_CALM, None)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes - before_bytes < HELD_BYTES_MAX
    await ask(served)
