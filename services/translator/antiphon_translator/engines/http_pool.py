"""HTTP connections to the server of one model, kept for the next request.

A server may close a connection at the moment in which it is used again, and the request is lost. Such a request is sent
once more on a new connection, also a POST: the head of its answer had not come, and a server stops a generation whose
connection is gone. A request that fails on a new connection has failed.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from antiphon_core.limits import ENGINE_CONNECTIONS_ITEMS_MAX
from antiphon_translator.engines.http_connection import HttpConnection
from antiphon_translator.engines.http_response import HttpError

KEEPALIVE_S = 4.0
"""Servers on uvicorn (vLLM, SGLang, NIM) close a connection that was idle for 5 s; most that are closed while a request
is on its way are met by closing first."""
_PORTS = {"http": 80, "https": 443}


class HttpPool:
    """The connections to one server. Make, use and close it inside one event loop."""

    def __init__(self, url: str) -> None:
        """`url` is what the paths of requests are behind."""
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
        self._tls = _tls() if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self._head = f"Host: {parts.netloc.rpartition('@')[2]}\r\nAccept-Encoding: identity\r\n"
        if parts.username is not None:
            known = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._head += f"Authorization: Basic {base64.b64encode(known.encode()).decode()}\r\n"
        self._loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(ENGINE_CONNECTIONS_ITEMS_MAX)
        self._used: set[HttpConnection] = set()
        self._idle: list[HttpConnection] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> HttpConnection:
        """The connection on which the head of the answer has come; it must be closed. HttpError, OSError."""
        request = self._written(method, path, body, headers)
        await self._places.acquire()
        connection = self._kept()
        if connection is not None:
            try:
                return await self._sent(connection, request)
            except HttpError:
                await self._places.acquire()
        return await self._sent(await self._connected(), request)

    def close(self) -> None:
        """Cuts all connections; requests on them fail."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in (*self._used, *self._idle):
            connection.abort()
        self._idle.clear()

    def _written(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._head}{fields}{length}\r\n"
        return head.encode() + (body or b"")

    def _kept(self) -> HttpConnection | None:
        """The connection that was used last, if it may be used again."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and self._loop.time() - connection.idle_since < KEEPALIVE_S:
                return connection
            connection.abort()
        return None

    async def _connected(self) -> HttpConnection:
        try:
            host, port = self._address
            _, connection = await self._loop.create_connection(
                lambda: HttpConnection(self._release), host, port, ssl=self._tls
            )
        except BaseException:
            self._places.release()
            raise
        return connection

    async def _sent(self, connection: HttpConnection, request: bytes) -> HttpConnection:
        self._used.add(connection)
        try:
            await connection.send(request)
        except BaseException:
            connection.close()
            raise
        return connection

    def _release(self, connection: HttpConnection) -> None:
        """A request on a connection is over."""
        self._places.release()
        self._used.discard(connection)
        if not connection.is_open:
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(KEEPALIVE_S, self._sweep)

    def _sweep(self) -> None:
        """Closes the connections that were idle for too long."""
        oldest_s = self._loop.time() - KEEPALIVE_S
        kept = [connection for connection in self._idle if connection.is_open and connection.idle_since > oldest_s]
        for connection in self._idle:
            if connection not in kept:
                connection.abort()
        self._idle = kept
        self._sweeper = self._loop.call_at(kept[0].idle_since + KEEPALIVE_S, self._sweep) if kept else None


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
