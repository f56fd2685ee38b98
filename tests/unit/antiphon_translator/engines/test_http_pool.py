from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from antiphon_translator.engines import http_pool
from antiphon_translator.engines.http_pool import HttpPool
from antiphon_translator.engines.http_response import HttpError
from tests.support.patience import PATIENCE_S

PoolOf = Callable[["Server"], HttpPool]
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
HALF = ANSWER[:-1]


class Server:
    """Answers `answers` requests on each connection; the one after that is read, and its connection closed."""

    def __init__(self, answers: int) -> None:
        self.url = ""
        self.answer = ANSWER
        self.requests: list[tuple[int, bytes]] = []
        """The number of the connection that each request came on, and its body."""
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        """A client has closed its connection."""
        self._answers = answers
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self._connections
        self._connections += 1
        try:
            for _ in range(self._answers):
                self.requests.append((number, await self._request(reader)))
                self.asked.set()
                writer.write(self.answer)
            self.requests.append((number, await self._request(reader)))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
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
async def pools() -> AsyncIterator[PoolOf]:
    made: list[HttpPool] = []

    def pool_of(server: Server) -> HttpPool:
        made.append(HttpPool(server.url))
        return made[-1]

    yield pool_of
    for pool in made:
        pool.close()


async def post(pool: HttpPool, body: bytes) -> bytes:
    answer = await pool.request("POST", "/", body, {})
    try:
        return await answer.read()
    finally:
        answer.close()


async def test_connection_whose_answer_was_read_is_used_again(pools: PoolOf) -> None:
    async with served(answers=3) as server:
        pool = pools(server)
        for body in (b"1", b"2", b"3"):
            assert await post(pool, body) == b"hi"
    assert server.requests == [(0, b"1"), (0, b"2"), (0, b"3")]


async def test_post_that_a_used_connection_lost_is_sent_once_more_on_a_new_one(pools: PoolOf) -> None:
    async with served(answers=1) as server:
        pool = pools(server)
        assert await post(pool, b"1") == b"hi"
        assert await post(pool, b"2") == b"hi"
    assert server.requests == [(0, b"1"), (0, b"2"), (1, b"2")]


async def test_second_attempt_is_on_a_new_connection_whatever_else_the_pool_has(pools: PoolOf) -> None:
    async with served(answers=1) as server:
        pool = pools(server)
        await asyncio.gather(post(pool, b"1"), post(pool, b"1"))
        assert await post(pool, b"2") == b"hi"
    assert server.requests[-1] == (2, b"2")
    assert [body for _, body in server.requests].count(b"2") == 2


async def test_post_that_a_new_connection_lost_has_failed(pools: PoolOf) -> None:
    async with served(answers=0) as server:
        pool = pools(server)
        with pytest.raises(HttpError):
            await post(pool, b"1")
    assert server.requests == [(0, b"1")]


async def test_post_is_not_sent_a_third_time(pools: PoolOf) -> None:
    async with served(answers=1) as server:
        pool = pools(server)
        await post(pool, b"1")
        server._answers = 0
        with pytest.raises(HttpError):
            await post(pool, b"2")
    assert server.requests == [(0, b"1"), (0, b"2"), (1, b"2")]


async def test_connection_is_closed_when_its_answer_is_not_wanted(pools: PoolOf) -> None:
    async with served(answers=2) as server:
        pool = pools(server)
        server.answer = HALF
        answer = await pool.request("POST", "/", b"1", {})
        answer.close()
        server.answer = ANSWER
        await post(pool, b"2")
    assert server.requests == [(0, b"1"), (1, b"2")]


async def test_connection_that_was_idle_for_too_long_is_closed(pools: PoolOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "KEEPALIVE_S", 0.01)
    async with served(answers=2) as server:
        pool = pools(server)
        await post(pool, b"1")
        await asyncio.wait_for(server.left.wait(), PATIENCE_S)
        await post(pool, b"2")
    assert server.requests == [(0, b"1"), (1, b"2")]


async def test_closing_the_pool_fails_the_requests_that_wait(pools: PoolOf) -> None:
    async with served(answers=1) as server:
        server.answer = HALF
        pool = pools(server)
        waiting = asyncio.create_task(post(pool, b"1"))
        await asyncio.wait_for(server.asked.wait(), PATIENCE_S)
        pool.close()
        with pytest.raises(HttpError, match="closed the connection"):
            await waiting


async def test_requests_say_the_host_the_path_and_who_asks() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(ANSWER)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = HttpPool(f"http://me:p%40ss@127.0.0.1:{port}/v1/")
    answer = await pool.request("GET", "/models", None, {"Accept": "x/y"})
    assert await answer.read() == b"hi"
    answer.close()
    pool.close()
    listening.close()
    assert heads[0].split(b"\r\n")[:-2] == [
        b"GET /v1/models HTTP/1.1",
        f"Host: 127.0.0.1:{port}".encode(),
        b"Accept-Encoding: identity",
        b"Authorization: Basic bWU6cEBzcw==",
        b"Accept: x/y",
    ]
