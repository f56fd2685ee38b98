from __future__ import annotations

import asyncio
import threading
from typing import Any
from unittest import mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.errors import InvalidRequest, RequestRateExceeded
from antiphon_core.jsons import parse_object
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_edge.callers.authentication import TENANT
from antiphon_edge.quotas.admission import set_long_work
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.routes import bodies

SHARE = 2**20
BUDGET = ByteBudget("bodies", total=2 * SHARE, share=SHARE)


ZSTD_WINDOW = b"\x28\xb5\x2f\xfd\x00"
"""The beginning of a zstd frame, before the byte that asks for a window."""


def request_with(body: bytes, encoding: str = "identity") -> web.Request:
    connection: Any = mock.Mock()
    payload = StreamReader(connection, 2**16, loop=asyncio.get_running_loop())
    payload.feed_data(body)
    payload.feed_eof()
    app = web.Application()
    bodies.set_budget(app, BUDGET)
    set_long_work(app, LongWork())
    request = make_mocked_request(
        "POST",
        "/",
        headers={"Content-Encoding": encoding},
        payload=payload,
        app=app,
        client_max_size=2 * SHARE,
    )
    request[TENANT] = "acme"
    return request


@pytest.mark.parametrize(("length", "is_here"), [(INLINE_BYTES_MAX, True), (INLINE_BYTES_MAX + 1, False)])
async def test_large_bodies_are_parsed_in_another_thread(length: int, is_here: bool) -> None:
    def parse(body: bytes) -> tuple[int, threading.Thread]:
        return len(body), threading.current_thread()

    size, thread = await bodies.parse_body(request_with(b"x" * length), parse)
    assert size == length
    assert (thread is threading.current_thread()) is is_here


async def test_errors_of_the_parser_are_raised() -> None:
    with pytest.raises(InvalidRequest, match="could not be parsed"):
        await bodies.parse_body(request_with(b"{"), parse_object)
    assert BUDGET.held_bytes == 0


async def test_a_body_counts_while_it_is_read_and_parsed() -> None:
    held = await bodies.parse_body(request_with(b"x" * 100), lambda _: BUDGET.held_bytes)
    assert (held, BUDGET.held_bytes) == (100, 0)


async def test_body_beyond_the_share_of_its_tenant_is_rejected() -> None:
    with pytest.raises(RequestRateExceeded):
        await bodies.parse_body(request_with(b"x" * (SHARE + 1)), len)
    assert BUDGET.held_bytes == 0


async def test_a_zstd_window_counts_until_the_body_is_decoded() -> None:
    """Each frame has one byte. The window of the first is the whole share, so that its byte is one too many."""
    frame = ZSTD_WINDOW + bytes([10 << 3]) + b"\x09\x00\x00x"
    with pytest.raises(RequestRateExceeded):
        await bodies.parse_body(request_with(frame, "zstd"), len)
    smaller = ZSTD_WINDOW + bytes([9 << 3]) + b"\x09\x00\x00x"
    held = await bodies.parse_body(request_with(smaller, "zstd"), lambda _: BUDGET.held_bytes)
    assert (held, BUDGET.held_bytes) == (1, 0)


async def test_body_over_the_size_limit_is_rejected() -> None:
    wide = ByteBudget("bodies", total=9 * SHARE, share=9 * SHARE)
    request = request_with(b"x" * (2 * SHARE + 1))
    request.app[bodies._BUDGET] = wide
    with pytest.raises(web.HTTPRequestEntityTooLarge):
        await bodies.parse_body(request, len)
    assert wide.held_bytes == 0
