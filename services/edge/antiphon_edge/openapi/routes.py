"""The routes /openapi.json and /docs: the OpenAPI document, and the same as a page.

The first request makes the document, in a thread: it would block the event loop for 80 ms.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from antiphon_core.jsons import dumps
from antiphon_edge.openapi.document import document
from antiphon_edge.openapi.page import page
from antiphon_edge.operations.routing import serves
from antiphon_edge.routes import answers

_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


class DocumentRoutes:
    @serves("getDocument")
    async def document(self, _request: web.Request) -> web.Response:
        return answers.json(await asyncio.to_thread(lambda: dumps(document())))

    @serves("getPage")
    async def page(self, _request: web.Request) -> web.Response:
        return web.Response(text=await asyncio.to_thread(page), content_type="text/html", headers=_HEADERS)
