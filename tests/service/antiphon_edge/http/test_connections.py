from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from antiphon_edge.http import connections
from tests.support.edge import RunningEdge, running_edge

REQUEST = b'{"model": "m", "input": "hi", "stream": true}'


def accepted(edge: RunningEdge) -> socket.socket:
    """The edge's end of its only connection."""
    (handler,) = edge.server._http.connections
    assert handler.transport is not None
    found: socket.socket = handler.transport.get_extra_info("socket")
    return found


async def test_stream_has_no_delay_and_a_small_send_buffer() -> None:
    async with running_edge(write_timeout_s=7, send_buffer_bytes=32_768) as edge:
        edge.translator.hang = True
        async with edge.http.session.post(edge.server.url + "/v1/responses", data=REQUEST) as answer:
            await answer.content.readany()
            connection = accepted(edge)
            # Without TCP_NODELAY a small event waits for the reader's delayed acknowledgement: 40 ms and more.
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 32_768
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7_000


async def test_options_of_a_connection_are_set_once() -> None:
    async with running_edge(send_buffer_bytes=32_768) as edge:
        for expected_bytes in (2 * 32_768, 2 * 16_384):
            async with edge.http.session.post(edge.server.url + "/v1/responses", data=REQUEST) as answer:
                await answer.read()
            connection = accepted(edge)
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == expected_bytes
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)


async def test_other_answers_have_the_kernels_buffer_and_the_same_timeout() -> None:
    async with running_edge(write_timeout_s=7, send_buffer_bytes=32_768) as edge:
        await edge.create()
        connection = accepted(edge)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > 2 * 32_768
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7_000


async def test_connection_that_is_cut_off_is_closed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running_edge() as edge:
        edge.translator.hang = True
        async with edge.http.session.post(edge.server.url + "/v1/responses", data=REQUEST) as answer:
            await answer.content.readany()
            (handler,) = edge.server._http.connections
            assert handler._current_request is not None
            connections.cut(handler._current_request)  # type: ignore[arg-type]
            await asyncio.wait_for(edge.translator.closed.wait(), 30)
    assert "127.0.0.1 does not read its stream, and is disconnected" in caplog.text


def test_options_of_a_closed_connection_raise_no_error() -> None:
    app = web.Application()
    connections.set_bounds(app, connections.WriteBounds())
    request = make_mocked_request("GET", "/", app=app)
    request._protocol.transport = None  # as aiohttp leaves it
    connections.bound_stream(request)
    connections.cut(request)
