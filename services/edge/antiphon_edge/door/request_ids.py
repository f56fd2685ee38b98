"""Every answer names its request: `x-request-id`, taken from the caller when it sent a usable one.

A caller that may never see the answer names the request by itself, as `x-client-request-id`: that name is in the access
line, beside ours."""

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
_CLIENTS_OWN = re.compile(r"[A-Za-z0-9._:-]{1,512}")  # OpenAI's length; what could forge a log line is left out
_STARTED_AT: web.RequestKey[float] = web.RequestKey("started_at", float)
_REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)


def naming(handler: Handler, ids: Ids) -> Handler:
    """A handler that names the request, and writes one access line when it was answered."""

    async def handle(request: web.Request) -> web.StreamResponse:
        name(request, ids)
        status = CLIENT_CLOSED_REQUEST
        try:
            answer = await handler(request)
            status = answer.status
        finally:
            path = request.rel_url.raw_path  # as it came: decoded, it could hold a line of its own
            access_log.info(
                "%s %s %d %dms%s", request.method, path, status, _elapsed_ms(request), _clients_own(request)
            )
        return answer

    return handle


def name(request: web.BaseRequest, ids: Ids) -> None:
    """Gives a request its id, which its log lines and its answer carry."""
    given = request.headers.get("x-request-id", "")
    request_id = given if _USABLE.fullmatch(given) else new_request_id(ids)
    request[_REQUEST_ID], request[_STARTED_AT] = request_id, time.perf_counter()
    logs.request_id.set(request_id)


async def add_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: the headers that OpenAI's answers carry."""
    response.headers.update(headers_of(request))


def headers_of(request: web.BaseRequest) -> dict[str, str]:
    """The headers of the answer to a request that has its name."""
    return {
        "x-request-id": request[_REQUEST_ID],
        "openai-version": "2020-10-01",
        "openai-processing-ms": str(_elapsed_ms(request)),
    }


def _elapsed_ms(request: web.BaseRequest) -> int:
    return round((time.perf_counter() - request[_STARTED_AT]) * 1000)


def _clients_own(request: web.BaseRequest) -> str:
    given = request.headers.get("x-client-request-id", "")
    return f" client={given}" if _CLIENTS_OWN.fullmatch(given) else ""
