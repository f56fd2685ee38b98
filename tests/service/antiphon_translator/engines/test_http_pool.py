from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from antiphon_translator.engines.http_pool import HttpPool

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
HALF = ANSWER[:-1]


class Server:
    """Answers `answers` requests on each connection. It reads one more request and closes the connection."""

    def __init__(self, answers: int) -> None:
        self.url = ""
        self.answer = ANSWER
        self.requests: list[tuple[int, bytes]] = []
        """The connection number and the body of each request."""
        self.heads: list[bytes] = []
        self._answers = answers
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self._connections
        self._connections += 1
        try:
            for _ in range(self._answers):
                self.requests.append((number, await self._request(reader)))
                writer.write(self.answer)
            self.requests.append((number, await self._request(reader)))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        return await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))


@asynccontextmanager
async def served(answers: int) -> AsyncIterator[Server]:
    server = Server(answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    try:
        yield server
    finally:
        listening.close()


@pytest.fixture
async def pool() -> AsyncIterator[HttpPool]:
    made = HttpPool()
    yield made
    await made.close()


async def post(pool: HttpPool, server: Server, body: bytes) -> bytes:
    async with await pool.request("POST", server.url, body, {}) as response:
        return await response.read()


async def test_connection_is_reused_after_its_answer_was_read(pool: HttpPool) -> None:
    async with served(answers=3) as server:
        for body in (b"1", b"2", b"3"):
            assert await post(pool, server, body) == b"hi"
    assert server.requests == [(0, b"1"), (0, b"2"), (0, b"3")]


async def test_post_lost_on_a_reused_connection_is_retried_once_on_a_new_one(pool: HttpPool) -> None:
    async with served(answers=1) as server:
        assert await post(pool, server, b"1") == b"hi"
        assert await post(pool, server, b"2") == b"hi"
    assert server.requests == [(0, b"1"), (0, b"2"), (1, b"2")]


async def test_retry_uses_a_new_connection_despite_idle_ones(pool: HttpPool) -> None:
    async with served(answers=1) as server:
        await asyncio.gather(post(pool, server, b"1"), post(pool, server, b"1"))
        assert await post(pool, server, b"2") == b"hi"
    assert server.requests[-1] == (2, b"2")
    assert [body for _, body in server.requests].count(b"2") == 2


async def test_post_lost_on_a_new_connection_is_not_retried(pool: HttpPool) -> None:
    async with served(answers=0) as server:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await post(pool, server, b"1")
    assert server.requests == [(0, b"1")]


async def test_post_lost_twice_is_not_retried_again(pool: HttpPool) -> None:
    async with served(answers=1) as server:
        await post(pool, server, b"1")
        server._answers = 0
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await post(pool, server, b"2")
    assert server.requests == [(0, b"1"), (0, b"2"), (1, b"2")]


async def test_connection_with_an_unread_answer_is_closed(pool: HttpPool) -> None:
    async with served(answers=2) as server:
        server.answer = HALF
        response = await pool.request("POST", server.url, b"1", {})
        response.close()
        server.answer = ANSWER
        await post(pool, server, b"2")
    assert server.requests == [(0, b"1"), (1, b"2")]


async def test_cookies_of_a_server_are_not_sent_back(pool: HttpPool) -> None:
    async with served(answers=2) as server:
        server.url = server.url.replace("127.0.0.1", "localhost")  # aiohttp never keeps cookies of a bare address
        server.answer = ANSWER.replace(b"\r\n\r\n", b"\r\nSet-Cookie: tenant=a\r\n\r\n")
        for body in (b"1", b"2"):
            await post(pool, server, body)
    assert [b"cookie" in head.lower() for head in server.heads] == [False, False]
