"""A web server with the answers that URLs of strangers may lead to: files, redirects, wrong headers, silence.

The server listens on 127.0.0.1. `Names` resolves every name to it, or to the addresses of a test.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

HERE = "127.0.0.1"


class Names(AbstractResolver):
    """A resolver that returns a test's addresses for a name, one after the other for each look-up, and HERE for other
    names."""

    def __init__(self, addresses: Mapping[str, Sequence[str]] | None = None) -> None:
        self.addresses = addresses or {}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        row = self.addresses.get(host, [HERE])
        address = row[min(self.asked.count(host), len(row) - 1)]
        self.asked.append(host)
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None:
        """Does nothing: the resolver has no connection."""


@dataclass
class Web:
    """The server. `pages` are the answers by path, with their pieces and headers."""

    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[web.BaseRequest] = field(default_factory=list)
    port: int = 0

    def url(self, path: str = "/", host: str = "a.example", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        page = self.pages.get(request.path, Page(status=404))
        response = web.StreamResponse(status=page.status, headers=dict(page.headers))
        await response.prepare(request)
        for piece in page.pieces:
            if isinstance(piece, bytes):
                await response.write(piece)
            else:
                await asyncio.sleep(piece)
        if page.breaks_off:
            assert request.transport is not None
            request.transport.abort()
        return response


@dataclass(frozen=True)
class Page:
    """An answer: the pieces of its body, and seconds of silence between them."""

    pieces: Sequence[bytes | float] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    breaks_off: bool = False


def redirect(location: str, status: int = 302) -> Page:
    return Page(status=status, headers={"Location": location})


@asynccontextmanager
async def web_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    """Runs a server on a free port."""
    served = Web()
    # A closed connection cancels its handler.
    server = web.Server(served.answer, access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, HERE, 0, ssl_context=tls)
    await site.start()
    served.port = runner.addresses[0][1]
    try:
        yield served
    finally:
        await runner.cleanup()
