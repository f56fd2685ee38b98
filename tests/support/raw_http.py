"""HTTP over a raw socket, for requests that no HTTP client would send."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from yarl import URL

from antiphon_core.jsons import Object, loads

HOST = b"Host: localhost\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True)
class RawAnswer:
    """An answer, and whether the server closed the connection after it."""

    version: str
    status: int
    headers: dict[str, str]
    body: bytes
    ended: bool

    @property
    def error(self) -> Object:
        error: Object = loads(self.body)["error"]
        return error


def head(line: bytes, *headers: bytes) -> bytes:
    """Returns the head of a request: its first line and headers, with a Host."""
    return b"".join([line, b" HTTP/1.1\r\n", HOST, *(header + b"\r\n" for header in headers), b"\r\n"])


def post(body: bytes, *headers: bytes, path: bytes = b"/v1/responses") -> bytes:
    return head(b"POST " + path, b"Content-Length: %d" % len(body), *headers) + body


async def exchange(url: str, request: bytes, *, after_continue: bytes = b"") -> RawAnswer:
    """Sends a whole request before it reads the answer, as most clients do. `after_continue` is sent only after the
    server's 100 Continue, while the request is being served."""
    address = URL(url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(request)
        if after_continue:
            assert await reader.readexactly(len(CONTINUE)) == CONTINUE
            writer.write(after_continue)
        async with asyncio.timeout(60):
            await writer.drain()
            return await read(reader)
    finally:
        writer.close()


async def read(reader: asyncio.StreamReader) -> RawAnswer:
    """Reads one answer with a Content-Length."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers["content-length"]))
    ended = headers.get("connection") == "close" and await reader.read() == b""
    version, status, *_ = first.split()
    return RawAnswer(version, int(status), headers, body, ended)
