"""Bodies of requests, read and parsed. Large ones are parsed outside the event loop.

A tenant holds its share of all bytes that are read and not parsed yet, and no more: who sends many bodies slowly keeps
nobody else's out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from aiohttp import web

from antiphon_core import offload
from antiphon_core.jsons import work_bytes
from antiphon_edge.callers.tenancy import tenant_of
from antiphon_edge.http.byte_budget import ByteBudget, Tally

T = TypeVar("T")

READ_BYTES = 2**20
"""Of a compressed body, decoded at a time."""
_BUDGET: web.AppKey[ByteBudget] = web.AppKey("bytes of bodies", ByteBudget)


def set_budget(app: web.Application, budget: ByteBudget) -> None:
    """To be called once, before the application serves."""
    app[_BUDGET] = budget


def tally_of(request: web.Request) -> Tally:
    """Counts what is received of a request or a message, for its tenant."""
    return Tally(request.app[_BUDGET], tenant_of(request))


async def parsed(request: web.Request, parse: Callable[[bytes], T]) -> T:
    """Parses the body with `parse`, and raises the errors of `parse`. RequestRateExceeded, Unavailable: no room."""
    with tally_of(request) as tally:
        body = await _read(request, tally)
        return await offload.run(partial(parse, body), size_bytes=work_bytes(body))


async def _read(request: web.Request, tally: Tally) -> bytes:
    request.content.set_read_chunk_size(READ_BYTES)
    body = bytearray()
    async for piece in request.content.iter_any():
        tally.add(len(piece))
        body += piece
        if len(body) > request.client_max_size:
            raise web.HTTPRequestEntityTooLarge(request.client_max_size)
    return bytes(body)
