"""Encodings of request bodies: none, gzip or deflate.

aiohttp decodes gzip and deflate. It passes bodies in other encodings on undecoded, and they would be rejected as
malformed JSON, or even parsed as JSON. The size limit of a body applies to the decoded body.
"""

from __future__ import annotations

from aiohttp import web

from antiphon_edge.http.http_errors import Handler, rejection

DECODED = ("gzip", "deflate")
ACCEPT = {"Accept-Encoding": ", ".join(DECODED)}
CODE = "unsupported_content_encoding"
MESSAGE = "A request body must have no 'Content-Encoding', or one of gzip or deflate."

_ACCEPTED = frozenset({"", "identity", *DECODED})


@web.middleware
async def require_readable(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Rejects a body in another encoding, or in several, with the accepted ones in `Accept-Encoding`. A list with an
    empty element counts as several, because aiohttp does not decode `gzip,`."""
    given = ",".join(request.headers.getall("Content-Encoding", []))
    if request.can_read_body and given.strip().lower() not in _ACCEPTED:
        return rejection(415, CODE, MESSAGE, ACCEPT)
    return await handler(request)
