"""The routes /openapi.json and /docs: the OpenAPI document, and the same as a page.

The first request makes the document, in a thread: it would block the event loop for 80 ms.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from antiphon_core.jsons import dumps
from antiphon_edge.openapi.document import document
from antiphon_edge.openapi.page import page
from antiphon_edge.routes import answers

_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}


def table() -> list[web.RouteDef]:
    return [
        web.get("/openapi.json", _document, allow_head=False),
        web.get("/docs", _page, allow_head=False),
    ]


async def _document(_request: web.Request) -> web.Response:
    return answers.json(await asyncio.to_thread(lambda: dumps(document())))


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text=await asyncio.to_thread(page), content_type="text/html", headers=_HEADERS)
