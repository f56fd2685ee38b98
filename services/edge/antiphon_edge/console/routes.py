"""/console: the page and its files. They need no authentication, since they contain no data: the page gets all data
from the HTTP API, with the API key of its user."""

from __future__ import annotations

import asyncio
import re

from aiohttp import hdrs, web

from antiphon_edge.console.assets import Assets, assets
from antiphon_edge.console.page import page
from antiphon_edge.http.http_errors import rejection
from antiphon_edge.operations.routing import serves

_GZIP = re.compile(r"(?:^|,)\s*gzip\s*(?:,|$|;(?!\s*q=0(?:\.0*)?\s*(?:,|$)))", re.IGNORECASE)
"""Finds gzip in an Accept-Encoding header, unless the weight 0 excludes it."""
_FOREVER, _NEVER = "public, max-age=31536000, immutable", "no-store"


class ConsoleRoutes:
    """Handlers for the files of the console."""

    def __init__(self, *, trace_url: str = "") -> None:
        """`trace_url`: the URL at which a trace is shown, with {trace_id} in it; empty for no links."""
        self._trace_url = trace_url

    @serves("getConsole")
    async def document(self, _request: web.Request) -> web.Response:
        made = page(await _files_read(), trace_url=self._trace_url)
        return web.Response(body=made.body, content_type="text/html", charset="utf-8", headers=dict(made.headers))

    @serves("redirectToConsole")
    async def without_slash(self, _request: web.Request) -> web.Response:
        """Redirects to the path without a slash, to which the paths in the document are relative."""
        return web.Response(status=308, headers={hdrs.LOCATION: "../console"})

    @serves("getConsoleFile")
    async def file(self, request: web.Request) -> web.Response:
        files = await _files_read()
        found = files.files.get(request.match_info["path"])
        if found is None:
            return rejection(404, "unknown_url", "The console has no such file. Load /console again.")
        headers = {
            # During a rollout, a page of one release may request its files from an edge of another release.
            hdrs.CACHE_CONTROL: _FOREVER if request.match_info["version"] == files.version else _NEVER,
            hdrs.VARY: hdrs.ACCEPT_ENCODING,
            "X-Content-Type-Options": "nosniff",
        }
        is_compressed = _GZIP.search(request.headers.get(hdrs.ACCEPT_ENCODING, "")) is not None
        if is_compressed:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        body = found.compressed if is_compressed else found.body
        return web.Response(body=body, content_type=found.content_type, charset="utf-8", headers=headers)


async def _files_read() -> Assets:
    """The files. The first call reads them in a thread: compressing them would block the event loop for 40 ms."""
    return await asyncio.to_thread(assets)
