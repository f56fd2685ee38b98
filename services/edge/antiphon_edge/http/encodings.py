"""In which encodings a request body may come: as it is, or as gzip or deflate.

aiohttp decodes these two, and passes others on as they are: they would be refused as broken JSON, or taken for it. How
large a body gets is measured decoded.
"""

from __future__ import annotations

from aiohttp import web

from antiphon_edge.http.http_errors import Handler, refuse

DECODED = ("gzip", "deflate")
ACCEPT = {"Accept-Encoding": ", ".join(DECODED)}
CODE = "unsupported_content_encoding"
MESSAGE = "A request body may come as it is, or with a 'Content-Encoding' of gzip or deflate."

_READABLE = ([], ["identity"], *([name] for name in DECODED))


@web.middleware
async def require_readable(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuses a body in another encoding, or in several, and says which there may be."""
    said = ",".join(request.headers.getall("Content-Encoding", []))
    encodings = [name.strip().lower() for name in said.split(",") if name.strip()]
    if request.can_read_body and encodings not in _READABLE:
        return refuse(415, CODE, MESSAGE, ACCEPT)
    return await handler(request)
