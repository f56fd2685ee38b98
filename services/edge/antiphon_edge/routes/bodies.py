"""Reads and parses request bodies. Large ones are parsed outside the event loop.

The bytes that are read and not parsed yet have a limit per tenant, so that a client that sends many bodies slowly does
not block other tenants. Those of a turn count until the turn ends.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING

from antiphon_core import offload
from antiphon_core.byte_budget import ByteBudget, Tally
from antiphon_core.jsons import Object, parse_object, work_bytes
from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.http.decoding import Decoding
from antiphon_edge.http.encodings import decoder_of
from antiphon_edge.quotas.admission import long_work_of
from antiphon_edge.quotas.rate_limits import hold_bytes

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Validate(Protocol[T_co]):
    """Validates a parsed body. InvalidRequest: `field` is the path of the wrong member."""

    def __call__(self, given: Object, /, *, work_bytes: int) -> T_co:
        """`work_bytes` are those of the body's JSON."""


_BUDGET: web.AppKey[ByteBudget] = web.AppKey("bytes of bodies", ByteBudget)


def set_budget(app: web.Application, budget: ByteBudget) -> None:
    """Sets the budget of an application. Call it once, before the application serves."""
    app[_BUDGET] = budget


def tally_of(request: web.Request) -> Tally:
    """Makes the counter for the bytes of a request or message, in the budget of its tenant."""
    return Tally(request.app[_BUDGET], tenant_of(request))


async def parse_body(request: web.Request, validate: Validate[T], *, may_be_empty: bool = False) -> T:
    """Reads the body, parses its JSON, and validates it. A large one is long work of its tenant: it keeps the GIL
    for 20 ms for 200,000 values. `may_be_empty`: a request without a body has an empty object.

    RequestRateExceeded, Unavailable: over a budget. What `validate` raises."""
    tenant = tenant_of(request)
    with Tally(request.app[_BUDGET], tenant) as tally:
        body = await _read(request, tally)
        if may_be_empty and not body:
            body = b"{}"
        size_bytes = work_bytes(body)
        hold_bytes(size_bytes)

        def parse() -> T:
            return validate(parse_object(body), work_bytes=size_bytes)

        async with long_work_of(request).reserve(tenant, size_bytes):
            return await offload.run(parse, size_bytes=size_bytes)


async def _read(request: web.Request, tally: Tally) -> bytes:
    body = bytearray()

    def keep(piece: bytes) -> None:
        tally.add(len(piece))
        body.extend(piece)
        if len(body) > request.client_max_size:
            raise web.HTTPRequestEntityTooLarge(request.client_max_size)

    try:
        if (request.content_length or 0) > request.client_max_size:
            raise web.HTTPRequestEntityTooLarge(request.client_max_size)
        decoder = decoder_of(request, tally.add) if CONTENT_ENCODING in request.headers else None
        if decoder is None:
            async for data in request.content.iter_any():
                keep(data)
            return bytes(body)
        decoding = Decoding(decoder, tenant_of(request))
        async for data in request.content.iter_any():
            await decoding.feed(data, keep)
        decoding.end()
        tally.shrink_to(len(body))  # without the memory of the decoder
        return bytes(body)
    except (ValueError, web.HTTPRequestEntityTooLarge) as error:
        broken = web.RequestPayloadError(f"the body was not read to its end: {error}")
        request.content.set_exception(broken)  # the rest is dropped, and the connection ends with the answer
        if isinstance(error, ValueError):
            raise broken from error
        raise
