"""Answers in JSON."""

from __future__ import annotations

from aiohttp import web

from antiphon_core.jsons import Fragment, Object, dumps
from antiphon_core.ports.store import ItemPage


def json(body: bytes | Object, *, status: int = 200) -> web.Response:
    """An answer with a JSON object, or with one that is encoded already."""
    raw = body if isinstance(body, bytes) else dumps(body)
    return web.Response(status=status, body=raw, content_type="application/json")


def item_page(page: ItemPage) -> web.Response:
    """A page of items, in the form of OpenAI's lists."""
    head = {"object": "list", "data": Fragment(page.items)}
    return json(head | {"first_id": page.first_id, "last_id": page.last_id, "has_more": page.has_more})
