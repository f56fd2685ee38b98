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
from antiphon_core.jsons import Object
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


def body_of(length: int) -> bytes:
    """A JSON object of so many bytes."""
    return b'{"a":"%b"}' % (b"x" * (length - 8))


def held_bytes(_given: Object, *, work_bytes: int) -> int:
    assert work_bytes > 0
    return BUDGET.held_bytes


def given_of(given: Object, *, work_bytes: int) -> Object:
    assert work_bytes > 0
    return given


@pytest.mark.parametrize(("length", "is_here"), [(INLINE_BYTES_MAX, True), (INLINE_BYTES_MAX + 1, False)])
async def test_large_bodies_are_parsed_in_another_thread(length: int, is_here: bool) -> None:
    def look(_given: Object, *, work_bytes: int) -> tuple[int, threading.Thread]:
        return work_bytes, threading.current_thread()

    size, thread = await bodies.parse_body(request_with(body_of(length)), look)
    assert size == length
    assert (thread is threading.current_thread()) is is_here


async def test_errors_of_the_parser_are_raised() -> None:
    with pytest.raises(InvalidRequest, match="could not be parsed"):
        await bodies.parse_body(request_with(b"{"), held_bytes)
    assert BUDGET.held_bytes == 0


async def test_a_body_counts_while_it_is_read_and_parsed() -> None:
    held = await bodies.parse_body(request_with(body_of(100)), held_bytes)
    assert (held, BUDGET.held_bytes) == (100, 0)


async def test_body_beyond_the_share_of_its_tenant_is_rejected() -> None:
    with pytest.raises(RequestRateExceeded):
        await bodies.parse_body(request_with(body_of(SHARE + 1)), held_bytes)
    assert BUDGET.held_bytes == 0


async def test_a_zstd_window_counts_until_the_body_is_decoded() -> None:
    """Each frame has two bytes. The window of the first is the whole share, so that its bytes are too many."""
    block = b"\x11\x00\x00{}"
    frame = ZSTD_WINDOW + bytes([10 << 3]) + block
    with pytest.raises(RequestRateExceeded):
        await bodies.parse_body(request_with(frame, "zstd"), held_bytes)
    smaller = ZSTD_WINDOW + bytes([9 << 3]) + block
    held = await bodies.parse_body(request_with(smaller, "zstd"), held_bytes)
    assert (held, BUDGET.held_bytes) == (2, 0)


@pytest.mark.parametrize("may_be_empty", [True, False])
async def test_only_a_body_that_may_be_empty_is_an_empty_object(may_be_empty: bool) -> None:
    parsing = bodies.parse_body(request_with(b""), given_of, may_be_empty=may_be_empty)
    if may_be_empty:
        assert await parsing == {}
        return
    with pytest.raises(InvalidRequest, match="could not be parsed"):
        await parsing


async def test_body_over_the_size_limit_is_rejected() -> None:
    wide = ByteBudget("bodies", total=9 * SHARE, share=9 * SHARE)
    request = request_with(body_of(2 * SHARE + 1))
    request.app[bodies._BUDGET] = wide
    with pytest.raises(web.HTTPRequestEntityTooLarge):
        await bodies.parse_body(request, held_bytes)
    assert wide.held_bytes == 0
