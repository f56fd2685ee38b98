"""Every answer names its request: `x-request-id`, taken from the caller when it sent a usable one."""

from __future__ import annotations

import logging
import re
import time

from aiohttp import web

from antiphon_core import logs
from antiphon_core.ids import Ids, new_request_id
from antiphon_edge.routes.http_errors import Handler

access_log = logging.getLogger("antiphon_edge.access")

CLIENT_CLOSED_REQUEST = 499  # nginx's word for a caller that hung up; it is only ever logged

_USABLE = re.compile(r"[A-Za-z0-9._-]{1,128}")
_STARTED_AT: web.RequestKey[float] = web.RequestKey("started_at", float)
_REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)


def middleware(ids: Ids) -> Handler:
    """Names the request, and writes one access line when it was answered."""

    @web.middleware
    async def name_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("x-request-id", "")
        request_id = given if _USABLE.fullmatch(given) else new_request_id(ids)
        request[_REQUEST_ID], request[_STARTED_AT] = request_id, time.perf_counter()
        logs.request_id.set(request_id)
        status = CLIENT_CLOSED_REQUEST
        try:
            answer = await handler(request)
            status = answer.status
        finally:
            path = request.rel_url.raw_path  # as it came: decoded, it could hold a line of its own
            access_log.info("%s %s %d %dms", request.method, path, status, _elapsed_ms(request))
        return answer

    return name_request  # type: ignore[return-value]


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: the headers that OpenAI's answers carry."""
    response.headers["x-request-id"] = request.get(_REQUEST_ID, "")
    response.headers["openai-version"] = "2020-10-01"
    response.headers["openai-processing-ms"] = str(_elapsed_ms(request))


def _elapsed_ms(request: web.Request) -> int:
    started_at: float = request.get(_STARTED_AT, time.perf_counter())
    return round((time.perf_counter() - started_at) * 1000)
