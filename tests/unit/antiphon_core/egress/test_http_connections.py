"""The protocol without a socket. tests/attacks/test_hostile_engines.py has it on a connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from antiphon_core.egress.http_connections import BoundedProtocol, EndlessFraming
from antiphon_core.limits import (
    HTTP_FRAMING_BYTES_MAX,
    HTTP_HEADS_BYTES_MAX,
    HTTP_INTERIM_ITEMS_MAX,
    HTTP_PIECE_BYTES_MAX,
)

CHUNK_BYTES = 4
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Wire(asyncio.Transport):
    """A transport that records that it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Line:
    """A connection on which a request was sent."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.protocol = BoundedProtocol(asyncio.get_running_loop(), CHUNK_BYTES)
        self.protocol.connection_made(self.wire)
        self.protocol.set_response_params()

    async def answer(self) -> tuple[Any, bytes]:
        """Returns the head and the body of the answer."""
        head, body = await self.protocol.read()
        return head, await body.read()


async def test_answer_behind_interim_responses_is_read_in_any_pieces() -> None:
    for size in (1, 7, 10_000):
        line, data = Line(), INTERIM * HTTP_INTERIM_ITEMS_MAX + ANSWER
        for start in range(0, len(data), size):
            line.protocol.data_received(data[start : start + size])
        head, body = await line.answer()
        assert (head.code, body, line.wire.is_aborted) == (200, b"hi", False)


@pytest.mark.parametrize(
    "data",
    [
        INTERIM * (HTTP_INTERIM_ITEMS_MAX + 1) + ANSWER,
        INTERIM * 100_000,
        (b"HTTP/1.1 103 Early Hints\r\n" + b"Link: %s\r\n" % (b"x" * 8_000) * 20 + b"\r\n") * 2 + ANSWER,
    ],
    ids=["one too many", "endless", "long"],
)
async def test_too_many_heads_close_the_connection_and_fail_the_request(data: bytes) -> None:
    line = Line()
    line.protocol.data_received(data)
    assert line.wire.is_aborted
    with pytest.raises(EndlessFraming):
        await line.answer()


async def test_nothing_more_is_parsed_behind_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    line, parsed = Line(), list[int]()
    parse = line.protocol._parse

    def counted(piece: bytes) -> None:
        parsed.append(len(piece))
        parse(piece)

    monkeypatch.setattr(line.protocol, "_parse", counted)
    line.protocol.data_received(INTERIM * 100_000)
    assert sum(parsed) <= HTTP_INTERIM_ITEMS_MAX * len(INTERIM) + HTTP_PIECE_BYTES_MAX
    assert sum(parsed) < HTTP_HEADS_BYTES_MAX


@pytest.mark.parametrize("more", [INTERIM, ANSWER])
async def test_answer_without_a_request_closes_the_connection(more: bytes) -> None:
    line = Line()
    line.protocol.data_received(ANSWER)
    await line.answer()
    line.protocol.data_received(more)
    assert line.wire.is_aborted


async def test_each_request_on_a_connection_has_the_whole_limit() -> None:
    line = Line()
    for _ in range(3):
        line.protocol.data_received(INTERIM * HTTP_INTERIM_ITEMS_MAX + ANSWER)
        assert cast(Any, await line.answer())[1] == b"hi"
        line.protocol.set_response_params()
    assert not line.wire.is_aborted


def chunks(size: int, count: int) -> bytes:
    return (b"%x\r\n" % size + b"x" * size + b"\r\n") * count


async def test_chunks_of_any_size_are_read_while_their_framing_is_in_proportion() -> None:
    framing = len(chunks(1, 1)) - 1
    for size, count in ((1, HTTP_FRAMING_BYTES_MAX // framing), (6 * CHUNK_BYTES, 100_000), (70_000, 3)):
        line, data = Line(), CHUNKED + chunks(size, count) + b"0\r\n\r\n"
        line.protocol.data_received(data)
        _, body = await line.answer()
        assert (len(body), line.wire.is_aborted) == (size * count, False)


@pytest.mark.parametrize(
    "data",
    [chunks(1, 100_000), chunks(4, 100_000), b"1;" + b"x" * 2 * HTTP_FRAMING_BYTES_MAX],
    ids=["one byte", "four bytes", "an extension without an end"],
)
async def test_framing_out_of_proportion_closes_the_connection_and_fails_the_body(data: bytes) -> None:
    line = Line()
    line.protocol.data_received(CHUNKED + data)
    with pytest.raises(EndlessFraming, match="too small"):
        await line.answer()
    assert line.wire.is_aborted


async def test_the_framing_of_an_answer_does_not_count_for_the_next_on_the_connection() -> None:
    line, count = Line(), HTTP_FRAMING_BYTES_MAX // len(chunks(1, 1))
    for _ in range(3):
        line.protocol.data_received(CHUNKED + chunks(1, count) + b"0\r\n\r\n")
        _, body = await line.answer()
        assert (len(body), line.wire.is_aborted) == (count, False)
        line.protocol.set_response_params()


async def test_reader_that_comes_after_the_end_of_the_connection_is_told_of_the_framing() -> None:
    line = Line()
    line.protocol.data_received(CHUNKED + b"1;" + b"x" * 2 * HTTP_FRAMING_BYTES_MAX)
    assert line.wire.is_aborted
    line.protocol.connection_lost(None)
    with pytest.raises(EndlessFraming, match="chunks that are too small"):
        await line.answer()
