from __future__ import annotations

import threading

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import parse_object
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_edge.routes import bodies


def request_with(body: bytes) -> web.Request:
    request = make_mocked_request("POST", "/")
    request._read_bytes = body
    return request


@pytest.mark.parametrize(("length", "is_here"), [(INLINE_BYTES_MAX, True), (INLINE_BYTES_MAX + 1, False)])
async def test_large_bodies_are_parsed_in_another_thread(length: int, is_here: bool) -> None:
    def parse(body: bytes) -> tuple[int, threading.Thread]:
        return len(body), threading.current_thread()

    size, thread = await bodies.parsed(request_with(b"x" * length), parse)
    assert size == length
    assert (thread is threading.current_thread()) is is_here


async def test_errors_of_the_parser_are_raised() -> None:
    with pytest.raises(InvalidRequest, match="could not be parsed"):
        await bodies.parsed(request_with(b"{"), parse_object)
