"""Answers of HTTP/1.1, however their bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.engines.http_response import HEAD_BYTES_MAX, HttpError, HttpResponse

CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"5\r\nhello\r\n7;ext=1\r\n, \r\n\r\nw\r\n00D\r\norld\n\nagain\r\n\r\n0\r\nTrailer: x\r\n\r\n"
)
CHUNKED_BODY = b"hello, \r\n\r\nworld\n\nagain\r\n"
MEASURED = b"HTTP/1.1 503 Not now\r\ncontent-length:  4 \r\n\r\nbusy"


def read(pieces: list[bytes]) -> tuple[HttpResponse, bytes]:
    response = HttpResponse()
    return response, b"".join([response.feed(piece) for piece in pieces])


def cut(data: bytes, places: set[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in pairwise(ends)]


@given(st.sets(st.integers(1, len(CHUNKED))))
def test_chunks_add_up_to_the_body_wherever_reads_cut_them(places: set[int]) -> None:
    response, body = read(cut(CHUNKED, places))
    assert (response.status, body) == (200, CHUNKED_BODY)
    assert response.is_complete
    assert response.can_reuse_connection


@given(st.sets(st.integers(1, len(MEASURED))))
def test_body_with_a_length_ends_there(places: set[int]) -> None:
    response, body = read(cut(MEASURED, places))
    assert (response.status, body, response.is_complete) == (503, b"busy", True)
    assert response.can_reuse_connection


def test_answer_is_complete_with_its_last_byte_and_not_before() -> None:
    for whole in (CHUNKED, MEASURED):
        response, _ = read([whole[:-1]])
        assert not response.is_complete
        with pytest.raises(HttpError, match="closed the connection"):
            response.end()


def test_piece_of_a_chunk_is_given_before_the_rest_of_it_comes() -> None:
    response, body = read([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"])
    assert body == b"hel"
    assert response.feed(b"lo\r\n") == b"lo"


def test_body_without_a_length_ends_with_the_connection() -> None:
    response, body = read([b"HTTP/1.1 200 OK\r\n\r\nsome", b" more"])
    assert (body, response.is_complete) == (b"some more", False)
    response.end()
    assert response.is_complete
    assert not response.can_reuse_connection


@pytest.mark.parametrize("length", [b"Content-Length: 0\r\n", b""])
def test_answer_without_a_body_is_complete_with_its_head(length: bytes) -> None:
    status = b"200 OK" if length else b"204 No Content"
    response, body = read([b"HTTP/1.1 " + status + b"\r\n" + length + b"\r\n"])
    assert (body, response.is_complete) == (b"", True)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\ny",
    ],
)
def test_connection_is_not_used_again_behind(answer: bytes) -> None:
    response, body = read([answer])
    assert (body, response.is_complete, response.can_reuse_connection) == (b"x", True, False)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * (HEAD_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_BYTES_MAX,
    ],
)
def test_what_is_no_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises(HttpError):
        read([answer])
