"""Bodies of requests, read and parsed. Large ones are parsed outside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from aiohttp import web

from antiphon_core import offload
from antiphon_core.jsons import work_bytes

T = TypeVar("T")


async def parsed(request: web.Request, parse: Callable[[bytes], T]) -> T:
    """Parses the body with `parse`, and raises the errors of `parse`."""
    body = await request.read()
    return await offload.run(partial(parse, body), size_bytes=work_bytes(body))
