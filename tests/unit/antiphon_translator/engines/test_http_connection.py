"""Connections of HTTP/1.1 whose bodies are pushed."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from antiphon_translator.engines.http_connection import HttpConnection
from antiphon_translator.engines.http_response import HttpError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"
request_id: ContextVar[str] = ContextVar("request_id", default="nobody's")


class _Transport(asyncio.Transport):
    """Notes what is done with it."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_paused = False
        self._connection = connection
        self._is_closing = False
        connection.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        self._is_closing = True
        self._connection.connection_lost(None)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


@pytest.fixture
def freed() -> list[bool]:
    """Whether the connection was open, each time that it became free."""
    return []


@pytest.fixture
def connection(freed: list[bool]) -> HttpConnection:
    return HttpConnection(lambda one: freed.append(one.is_open))


@pytest.fixture
def transport(connection: HttpConnection) -> _Transport:
    return _Transport(connection)


async def asked(connection: HttpConnection, *, come: bytes = HEAD) -> None:
    """A request whose answer begins with `come`."""
    asyncio.get_running_loop().call_soon(connection.data_received, come)
    await connection.send(b"GET / HTTP/1.1\r\n\r\n")


async def test_pieces_are_passed_on_within_the_read_that_brings_them(
    connection: HttpConnection, transport: _Transport, freed: list[bool]
) -> None:
    await asked(connection, come=HEAD + b"he")
    pieces: list[bytes] = []

    def receive(piece: bytes) -> bool:
        pieces.append(piece)
        return True

    passing = asyncio.create_task(connection.pass_on(receive))
    await asyncio.sleep(0)
    assert pieces == [b"he"]
    connection.data_received(b"ll")
    assert pieces == [b"he", b"ll"]
    connection.data_received(b"o!")
    await passing
    connection.close()
    assert (transport.written, freed) == ([b"GET / HTTP/1.1\r\n\r\n"], [True])


async def test_receiver_that_has_enough_ends_the_request_and_the_connection(
    connection: HttpConnection, transport: _Transport, freed: list[bool]
) -> None:
    await asked(connection, come=HEAD + b"he")
    pieces: list[bytes] = []

    def receive(piece: bytes) -> bool:
        pieces.append(piece)
        return False

    await connection.pass_on(receive)
    connection.data_received(b"llo")
    connection.close()
    assert (pieces, freed) == ([b"he"], [False])


async def test_what_a_receiver_raises_is_raised_to_its_caller(
    connection: HttpConnection, transport: _Transport, freed: list[bool]
) -> None:
    await asked(connection)

    def receive(piece: bytes) -> bool:
        raise KeyError(piece)

    asyncio.get_running_loop().call_soon(connection.data_received, b"hello!")
    with pytest.raises(KeyError):
        await connection.pass_on(receive)
    assert connection.is_open


async def test_receiver_runs_in_the_context_of_the_task_that_waits(
    connection: HttpConnection, transport: _Transport
) -> None:
    await asked(connection)
    seen: list[str] = []

    def receive(_piece: bytes) -> bool:
        seen.append(request_id.get())
        return True

    asyncio.get_running_loop().call_soon(connection.data_received, b"hello!")
    request_id.set("mine")
    await connection.pass_on(receive)
    assert seen == ["mine"]


async def test_connection_that_is_lost_in_an_answer_is_an_error(
    connection: HttpConnection, transport: _Transport
) -> None:
    await asked(connection)
    asyncio.get_running_loop().call_soon(connection.connection_lost, None)
    with pytest.raises(HttpError, match="closed the connection"):
        await connection.read()


async def test_request_on_a_connection_that_is_gone_is_an_error(
    connection: HttpConnection, transport: _Transport
) -> None:
    connection.connection_lost(None)
    with pytest.raises(HttpError, match="closed the connection"):
        await connection.send(b"GET / HTTP/1.1\r\n\r\n")


async def test_bytes_that_nobody_asked_for_end_the_connection(
    connection: HttpConnection, transport: _Transport
) -> None:
    connection.data_received(HEAD)
    assert not connection.is_open


async def test_connection_that_was_paused_is_read_again_for_the_next_request(
    connection: HttpConnection, transport: _Transport
) -> None:
    await asked(connection, come=HEAD + b"hello!")
    connection.pause_reading()
    assert transport.is_paused
    assert await connection.read() == b"hello!"
    connection.close()
    assert not transport.is_paused
