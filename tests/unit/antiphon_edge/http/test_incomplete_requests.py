from __future__ import annotations

import asyncio
import gzip

import pytest
from aiohttp import StreamReader, http_parser
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import RawRequestMessage

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.limits import HEAD_BYTES_MAX
from antiphon_edge.http.http_server import HEAD_REJECTED
from antiphon_edge.http.incomplete_requests import HeadBound, HeadDetector
from tests.support.raw_http import head, post

BLANK_LINES = b"\r\n\r\n" * 4
CHUNKED = (b"POST /c", b"Transfer-Encoding: chunked")
NO_BODY = head(b"GET /a")
BODY = post(b'{"a": 1}')
CHUNKS = head(*CHUNKED) + b"2\r\n{}\r\n0\r\n\r\n"
NEXT = b"GET /next?q"
STREAMS = {
    "no body": [NO_BODY, NO_BODY, NEXT],
    "bodies": [BODY, BODY, NO_BODY, BODY, NEXT],
    "an empty body": [post(b""), BODY, NEXT],
    "bodies of blank lines": [post(BLANK_LINES), NEXT],
    "chunks": [BODY, CHUNKS, NEXT],
    "chunks with a trailer": [head(*CHUNKED) + b"0\r\nx: y\r\n\r\n", NEXT],
}


class Parsed:
    """A detector beside aiohttp's parser. `pending` is the number of bytes of the incomplete head."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._protocol = BaseProtocol(loop)
        self._parser = http_parser.HttpRequestParser(self._protocol, loop, 2**16)
        self._protocol._parser = self._parser
        self._detector = HeadDetector()
        self.pending = 0

    def feed(self, data: bytes) -> list[tuple[RawRequestMessage, StreamReader]]:
        requests = list(self._parser.feed_data(data)[0])
        if requests:
            self.pending = 0
        self.pending += self._detector.head_bytes(data, requests)
        return requests


def incomplete_head_bytes(requests: list[bytes], sent: int) -> int:
    """The number of bytes of the first `sent` bytes that belong to an incomplete head."""
    for request in requests:
        if sent <= len(request):
            complete = request.find(b"\r\n\r\n") + 4 if request != NEXT else len(NEXT) + 1
            return sent if sent < complete else 0
        sent -= len(request)
    return 0


@pytest.mark.parametrize("requests", STREAMS.values(), ids=STREAMS.keys())
async def test_the_bytes_of_a_head_are_exact_however_the_stream_is_cut(requests: list[bytes]) -> None:
    stream = b"".join(requests)
    for first in range(1, len(stream) + 1):
        for size in (1, 2, 3, len(stream)):
            parsed = Parsed()
            for start, end in ((0, first), (first, first + size)):
                parsed.feed(stream[start:end])
                sent = min(end, len(stream))
                assert parsed.pending == incomplete_head_bytes(requests, sent), (start, end)


@pytest.mark.parametrize("requests", STREAMS.values(), ids=STREAMS.keys())
async def test_the_bytes_of_a_head_are_exact_in_a_stream_of_single_bytes(requests: list[bytes]) -> None:
    parsed = Parsed()
    stream = b"".join(requests)
    for at in range(len(stream)):
        parsed.feed(stream[at : at + 1])
        assert parsed.pending == incomplete_head_bytes(requests, at + 1), at


@pytest.mark.parametrize("request_", [NO_BODY, BODY, CHUNKS])
async def test_an_empty_line_behind_a_request_is_no_head(request_: bytes) -> None:
    parsed = Parsed()
    parsed.feed(request_ + b"\r\n")
    assert parsed.pending == 0


@pytest.mark.parametrize("body", [BLANK_LINES, BLANK_LINES + NEXT])
async def test_blank_lines_before_a_request_hide_no_head(body: bytes) -> None:
    """Blank lines make the counted number an upper bound."""
    parsed = Parsed()
    parsed.feed(b"\r\n\r\n" + post(body) + NEXT)
    assert parsed.pending >= len(NEXT)


async def test_a_body_behind_chunks_hides_no_head() -> None:
    parsed = Parsed()
    parsed.feed(head(*CHUNKED) + b"4\r\n\r\n\r\n\r\n0\r\n\r\n" + post(BLANK_LINES) + NEXT)
    assert parsed.pending >= len(NEXT)


async def test_bytes_behind_an_upgrade_are_no_head() -> None:
    parsed = Parsed()
    parsed.feed(head(b"GET /ws", b"Connection: Upgrade", b"Upgrade: websocket") + b"\x81\x80")
    assert parsed.pending == 0


async def test_a_compressed_body_ends_where_its_length_says() -> None:
    parsed = Parsed()
    request = post(gzip.compress(b"{}" * 1_000), b"Content-Encoding: gzip")
    parsed.feed(request[:-5])
    parsed.feed(request[-5:] + NEXT)
    assert parsed.pending == len(NEXT)


async def test_a_request_that_the_parser_had_buffered_is_followed_to_its_end() -> None:
    """The parser pauses in a body that is not read, and parses the rest when it is fed again."""
    parsed = Parsed()
    ((_, body),) = parsed.feed(post(b"x" * 2**18) + NO_BODY + NEXT)
    assert not body.is_eof()
    assert [message.path for message, _ in parsed.feed(b"")] == ["/a"]
    parsed.feed(b"=1")
    assert parsed.pending == len(b"=1")  # NEXT came in the read of the body, and counts no more


def test_pieces_of_a_head_count_until_it_is_complete() -> None:
    budget = ByteBudget("heads", total=100, share=50)
    head = HeadBound(budget)
    assert head.try_add("a", 30)
    assert not head.try_add("a", 30)
    assert budget.held_bytes == 30
    head.clear()
    assert budget.held_bytes == 0


def test_head_beyond_its_own_limit_is_rejected() -> None:
    head = HeadBound(ByteBudget("heads", total=10**9, share=10**9))
    assert head.try_add("a", HEAD_BYTES_MAX)
    assert not head.try_add("a", 1)


def test_rejection_of_a_head_is_a_431_answer_with_an_error_body() -> None:
    head, _, body = HEAD_REJECTED.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert b"Content-Length: %d" % len(body) in head
    assert b'"code":"header_too_large"' in body
