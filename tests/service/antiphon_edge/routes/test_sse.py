from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon_core.events import KEEP_ALIVE_FRAME, decode
from antiphon_core.ports.store import Record
from antiphon_store.decisions.nodes import to_record
from tests.support.edge import RunningEdge, running_edge
from tests.support.waiting import until

REQUEST = b'{"model": "m", "input": "hi", "stream": true}'
FLOOD = ["x" * 2**16] * 400  # 26 MB: far more than all buffers between a stream and its reader


@asynccontextmanager
async def lazy_reader(edge: RunningEdge) -> AsyncIterator[socket.socket]:
    """A client that has read the first bytes of a stream, and has a small receive buffer."""
    host, port = edge.server.url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setblocking(False)
        await loop.sock_connect(client, (host, int(port)))
        head = f"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(REQUEST)}\r\n\r\n"
        await loop.sock_sendall(client, head.encode() + REQUEST)
        assert (await loop.sock_recv(client, 64)).startswith(b"HTTP/1.1 200")
        yield client


async def only_record(edge: RunningEdge) -> Record:
    """Waits for the record of the only response."""
    async with asyncio.timeout(30):
        while not edge.backend.stored():
            await asyncio.sleep(0.01)
    ((_, response_id),) = edge.backend.stored()
    (row,) = edge.backend.stored().values()
    return to_record(response_id, row)


async def test_silent_stream_gets_keep_alive_comments_behind_whole_frames() -> None:
    async with running_edge(keep_alive_s=0.05) as edge:
        edge.translator.hang = True
        request = {"model": "m", "input": "hi", "stream": True}
        async with edge.http.session.post(edge.server.url + "/v1/responses", json=request) as answer:
            heard = b""
            async with asyncio.timeout(30):
                while heard.count(KEEP_ALIVE_FRAME) < 3:
                    heard += await answer.content.readany()
        first = heard.index(KEEP_ALIVE_FRAME)
        assert b"Hello" in heard[:first]
        assert heard[:first].endswith(b"\n\n")


async def test_silent_stream_gets_keep_alive_events_with_the_last_sequence_number() -> None:
    async with running_edge(keep_alive_s=0.05, keep_alive="event") as edge:
        edge.translator.hang = True
        request = {"model": "m", "input": "hi", "stream": True}
        async with edge.http.session.post(edge.server.url + "/v1/responses", json=request) as answer:
            heard = b""
            async with asyncio.timeout(30):
                while heard.count(b"event: keepalive\n") < 3:
                    heard += await answer.content.readany()
    told = decode(heard[: heard.rfind(b"\n\n") + 2])
    real = [event["sequence_number"] for event in told if event["type"] != "keepalive"]
    assert real == list(range(len(real)))
    assert {event["sequence_number"] for event in told[len(real) :]} == {real[-1]}
    assert KEEP_ALIVE_FRAME not in heard


def stream_timers() -> int:
    """The number of timers of open streams."""
    handles = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return sum(not handle.cancelled() and "EventStream._watch" in repr(handle) for handle in handles)


async def test_an_ended_stream_leaves_no_timer_behind() -> None:
    async with running_edge() as edge:
        await edge.create(stream=True)
        await until(lambda: stream_timers() == 0, "the timer of the finished stream was stopped")
        edge.translator.hang = True
        streaming = asyncio.create_task(edge.create(stream=True))
        await until(lambda: stream_timers() == 1, "a stream is open")
        streaming.cancel()
        await until(lambda: stream_timers() == 0, "the timer of the cut stream was stopped")


@pytest.mark.parametrize("keep_alive_s", [0.05, 15.0])
async def test_client_that_does_not_read_is_cut_off_and_the_model_stops(keep_alive_s: float) -> None:
    async with running_edge(keep_alive_s=keep_alive_s, write_timeout_s=0.3) as edge:
        edge.translator.words = FLOOD
        async with lazy_reader(edge) as client:
            await asyncio.wait_for(edge.translator.closed.wait(), 30)
            record = await only_record(edge)
            assert record.status == "cancelled"
            sent = 0
            with pytest.raises(ConnectionResetError):
                async with asyncio.timeout(30):
                    while chunk := await asyncio.get_running_loop().sock_recv(client, 2**20):
                        sent += len(chunk)
        # The model generated as much as the buffers on both sides hold, not the whole answer.
        assert len(record.output_items) < 2**20
        assert sent < 2**20


async def test_client_that_reads_too_slowly_is_cut_off() -> None:
    """The kernel's timeout does not apply: some bytes get through. The writer's timeout applies."""
    async with running_edge(write_timeout_s=0.3) as edge:
        edge.translator.words = FLOOD
        async with lazy_reader(edge) as client, asyncio.timeout(30):
            with pytest.raises(ConnectionResetError):
                while await asyncio.get_running_loop().sock_recv(client, 512):
                    await asyncio.sleep(0.02)
        assert (await only_record(edge)).status == "cancelled"


async def test_client_that_reads_slowly_within_the_timeout_gets_everything() -> None:
    async with running_edge(write_timeout_s=30) as edge:
        edge.translator.words = ["x" * 2**14] * 20
        heard = b""
        async with lazy_reader(edge) as client, asyncio.timeout(30):
            while b"[DONE]" not in heard[-100:]:
                heard += await asyncio.get_running_loop().sock_recv(client, 2**18)
                await asyncio.sleep(0)
        assert heard.count(b"event: response.output_text.delta\n") == 20
        assert (await only_record(edge)).status == "completed"


async def test_client_that_stops_reading_at_the_end_is_cut_off() -> None:
    """The last frames are larger than all buffers: the handler must not wait for ever to send them."""
    async with running_edge(write_timeout_s=0.3) as edge:
        edge.translator.words = ["x" * 2**21]
        async with lazy_reader(edge):
            record = await only_record(edge)
            async with asyncio.timeout(30):
                while edge.server._http.connections:
                    await asyncio.sleep(0.01)
        assert record.status in ("cancelled", "completed")
