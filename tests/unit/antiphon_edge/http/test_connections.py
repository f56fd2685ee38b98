from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from antiphon_edge.http.connections import FRAMED_BYTES, PLAIN_BYTES, Connection, PacedReads, ReadBuffer


def paced(read_bytes: int = FRAMED_BYTES) -> tuple[PacedReads, Mock, Mock]:
    connection = Mock(Connection, read_bytes=read_bytes)
    transport = Mock(asyncio.Transport)
    reads = PacedReads(connection, ReadBuffer())
    reads.connection_made(transport)
    return reads, connection, transport


def read(reads: PacedReads, data: bytes) -> None:
    reads.get_buffer(-1)[: len(data)] = data
    reads.buffer_updated(len(data))


@pytest.mark.parametrize(
    ("read_bytes", "asked_bytes"),
    [(FRAMED_BYTES, FRAMED_BYTES), (FRAMED_BYTES + 1, FRAMED_BYTES + 1), (10**7, PLAIN_BYTES)],
)
async def test_no_more_is_read_than_the_connection_says_and_never_too_much(read_bytes: int, asked_bytes: int) -> None:
    reads, _connection, _transport = paced(read_bytes)
    assert len(reads.get_buffer(-1)) == asked_bytes


async def test_a_full_read_pauses_until_the_next_iteration_of_the_loop() -> None:
    reads, connection, transport = paced()
    read(reads, b"x" * FRAMED_BYTES)
    transport.pause_reading.assert_called_once_with()
    connection.read_on.assert_not_called()
    await asyncio.sleep(0)
    connection.read_on.assert_called_once_with()


async def test_a_short_read_is_handed_on_without_a_pause() -> None:
    reads, connection, transport = paced()
    read(reads, b"first")
    read(reads, b"2nd")
    assert [call.args for call in connection.data_received.call_args_list] == [(b"first",), (b"2nd",)]
    transport.pause_reading.assert_not_called()


async def test_other_callbacks_are_passed_on() -> None:
    reads, connection, transport = paced()
    lost = ConnectionError()
    reads.pause_writing()
    reads.resume_writing()
    reads.connection_lost(lost)
    assert reads.eof_received() is connection.eof_received.return_value
    connection.connection_made.assert_called_once_with(transport)
    connection.pause_writing.assert_called_once_with()
    connection.resume_writing.assert_called_once_with()
    connection.connection_lost.assert_called_once_with(lost)
