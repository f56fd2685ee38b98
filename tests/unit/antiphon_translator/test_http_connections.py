"""The protocol without a socket. tests/attacks/test_hostile_engines.py has it on a connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from antiphon_core.limits import HTTP_HEADS_BYTES_MAX, HTTP_INTERIM_ITEMS_MAX, HTTP_PIECE_BYTES_MAX
from antiphon_translator.http_connections import BoundedProtocol, EndlessHeads

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
        self.protocol = BoundedProtocol(asyncio.get_running_loop())
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
    with pytest.raises(EndlessHeads):
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
