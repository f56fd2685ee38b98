"""Answers in JSON."""

from __future__ import annotations

from aiohttp import web

from antiphon_core.jsons import Fragment, Object, dumps
from antiphon_core.ports.store import ItemPage


def json(body: bytes | Object, *, status: int = 200) -> web.Response:
    """An object, or the bytes of one."""
    raw = body if isinstance(body, bytes) else dumps(body)
    return web.Response(status=status, body=raw, content_type="application/json")


def item_page(page: ItemPage) -> web.Response:
    """A page of items as OpenAI's lists look."""
    head = {"object": "list", "data": Fragment(page.items)}
    return json(head | {"first_id": page.first_id, "last_id": page.last_id, "has_more": page.has_more})
