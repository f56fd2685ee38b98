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
    """What `parse` makes of the body. Raises what it raises."""
    body = await request.read()
    return await offload.run(partial(parse, body), size_bytes=work_bytes(body))
