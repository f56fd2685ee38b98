"""CORS: lets web pages of the origins in `edge.cors_origins` read answers. Without origins this module is not in use,
and browsers block the pages of all other hosts.

Credentials in the sense of CORS (cookies) are never allowed: a page sends an API key, as every client does.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from aiohttp import hdrs, web

from antiphon_core.jsons import dumps
from antiphon_edge import phases
from antiphon_edge.http import dropped_tools

ANY_ORIGIN = "*"
METHODS = "GET, POST, DELETE"
EXPOSED = ", ".join(
    [
        "x-request-id",
        "openai-processing-ms",
        "openai-version",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "x-antiphon-resume",
        dropped_tools.HEADER,
        phases.HEADER,
        *(f"x-ratelimit-{what}-{kind}" for kind in ("requests", "tokens") for what in ("limit", "remaining", "reset")),
    ]
)
PREFLIGHT_AGE_S = 600

_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(\s*,\s*[A-Za-z0-9!#$%&'*+.^_`|~-]+)*")
_HEADER_NAMES_CHARS_MAX = 4_096


class Cors:
    """The CORS headers of one server."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    def preflight(self, request: web.Request) -> web.Response | None:
        """The answer to a preflight request, which carries no key; None for all others."""
        is_preflight = hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers and hdrs.ORIGIN in request.headers
        return self._preflight(request) if request.method == hdrs.METH_OPTIONS and is_preflight else None

    async def add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        """A signal for `on_response_prepare`: errors get the headers too, so that a page can read them. An answer that
        varies by another header, such as a compressed file, still does."""
        headers = self.headers_of(request)
        varies = [each[hdrs.VARY] for each in (response.headers, headers) if hdrs.VARY in each]
        response.headers.update(headers)
        if varies:
            response.headers[hdrs.VARY] = ", ".join(varies)

    def headers_of(self, request: web.BaseRequest) -> dict[str, str]:
        """The CORS headers of any answer to a request."""
        allowed = self._allowed_origin(request)
        headers = _readable_by(allowed) if allowed is not None else {}
        if ANY_ORIGIN not in self._origins:
            headers[hdrs.VARY] = hdrs.ORIGIN
        return headers

    def headers_for_all(self) -> dict[str, str]:
        """The CORS headers of the answer to a request that could not be parsed, so that its origin is unknown. Every
        page may read the answer: it holds nothing of a tenant."""
        return _readable_by(ANY_ORIGIN)

    def _allowed_origin(self, request: web.BaseRequest) -> str | None:
        if ANY_ORIGIN in self._origins:
            return ANY_ORIGIN
        origin = request.headers.get(hdrs.ORIGIN)
        return origin if origin in self._origins else None

    def _preflight(self, request: web.Request) -> web.Response:
        if self._allowed_origin(request) is None:
            message = "Pages of this origin may not call this server: the origin is not in edge.cors_origins."
            error = {"message": message, "type": "invalid_request_error", "param": "Origin", "code": "origin_refused"}
            return web.Response(status=403, body=dumps({"error": error}), content_type="application/json")
        headers = {hdrs.ACCESS_CONTROL_ALLOW_METHODS: METHODS, hdrs.ACCESS_CONTROL_MAX_AGE: str(PREFLIGHT_AGE_S)}
        # SDKs send a dozen headers of their own; "*" would not cover Authorization.
        requested = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "").strip()
        if len(requested) <= _HEADER_NAMES_CHARS_MAX and _HEADER_NAMES.fullmatch(requested):
            headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = requested
        return web.Response(status=204, headers=headers)


def _readable_by(origin: str) -> dict[str, str]:
    return {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin, hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: EXPOSED}
