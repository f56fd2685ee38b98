"""Every answer names its request: `x-request-id`, taken from the caller when it sent a usable one.

A caller that may never see the answer names the request by itself, as `x-client-request-id`: that name is in the access
line, beside ours. A caller that traces its requests sends `traceparent`, and everything that is done for the request
belongs to that trace."""

from __future__ import annotations

import logging
import re
import time

from aiohttp import web

from antiphon_core.ids import Ids, new_request_id
from antiphon_core.telemetry import correlation, log_fields, metrics, phases, spans, tracing
from antiphon_core.telemetry.correlation import REQUEST_ID_KEY, Correlation
from antiphon_core.telemetry.spans import SpanKind
from antiphon_core.telemetry.trace_context import TRACEPARENT, TRACESTATE, TraceContext
from antiphon_edge.http.http_errors import Handler

access_log = logging.getLogger("antiphon_edge.access")

CLIENT_CLOSED_REQUEST = 499  # nginx's word for a caller that hung up; it is only ever logged
OTHER_ROUTE = "other"
"""The route of a path that does not exist."""
OTHER_METHOD = "OTHER"

_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})
_USABLE = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CLIENTS_OWN = re.compile(r"[A-Za-z0-9._:-]{1,512}")  # OpenAI's length; what could forge a log line is left out
_STARTED_AT: web.RequestKey[float] = web.RequestKey("started_at", float)
_REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
_ROUTE: web.RequestKey[str] = web.RequestKey("route", str)
_BEGUN_STATUS: web.RequestKey[int] = web.RequestKey("begun_status", int)
"""The status of an answer that has begun: a handler whose client hangs up is cancelled and returns none."""


def naming(handler: Handler, ids: Ids) -> Handler:
    """A handler that names the request, and says what became of it when it was answered: a span, metrics, and one
    access line."""

    async def handle(request: web.Request) -> web.StreamResponse:
        name(request, ids)
        method = request.method if request.method in _METHODS else OTHER_METHOD
        facts = {spans.HTTP_METHOD: method, spans.URL_SCHEME: request.scheme, spans.REQUEST_ID: request[_REQUEST_ID]}
        with tracing.span(method, SpanKind.SERVER, facts) as span:
            try:
                answer = await handler(request)
                request[_BEGUN_STATUS] = answer.status
            finally:
                status = request.get(_BEGUN_STATUS, CLIENT_CLOSED_REQUEST)
                route = request.get(_ROUTE, OTHER_ROUTE)
                span.rename(f"{method} {route}")
                span.note({spans.HTTP_ROUTE: route, spans.HTTP_STATUS: status})
                if status >= 500:
                    span.fail(str(status))
                _observe(request, method, route, status)
        return answer

    return handle


def name(request: web.BaseRequest, ids: Ids) -> None:
    """Gives a request its id, which its log lines, its answer and all calls that are made for it carry."""
    given = request.headers.get(REQUEST_ID_KEY, "")
    request_id = given if _USABLE.fullmatch(given) else new_request_id(ids)
    request[_REQUEST_ID], request[_STARTED_AT] = request_id, time.perf_counter()
    trace = TraceContext.parse(request.headers.get(TRACEPARENT, ""), request.headers.get(TRACESTATE, ""))
    correlation.begin(Correlation(request_id=request_id, trace=trace))
    phases.begin()


@web.middleware
async def note_route(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Notes which route serves a request, for its metrics."""
    resource = request.match_info.route.resource
    request[_ROUTE] = resource.canonical if resource is not None else OTHER_ROUTE
    return await handler(request)


async def add_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: the headers that OpenAI's answers carry, and how long the phases took."""
    response.headers.update(headers_of(request))
    request[_BEGUN_STATUS] = response.status


def headers_of(request: web.BaseRequest) -> dict[str, str]:
    """The headers of the answer to a request that has its name."""
    elapsed_s = _elapsed_s(request)
    return {
        "x-request-id": request[_REQUEST_ID],
        "Server": "antiphon",  # aiohttp's own says its version and Python's
        "openai-version": "2020-10-01",
        "openai-processing-ms": str(round(elapsed_s * 1000)),
        phases.HEADER: phases.header(elapsed_s),
    }


def _observe(request: web.Request, method: str, route: str, status: int) -> None:
    duration_s = _elapsed_s(request)
    metrics.HTTP_REQUESTS.of(method, route, str(status)).add()
    metrics.HTTP_DURATION.of(method, route).observe(duration_s, correlation.current().sampled_trace_id)
    path = request.rel_url.raw_path  # as it came: decoded, it could hold a line of its own
    client, duration_ms = _clients_own(request), round(duration_s * 1000)
    fields = {
        log_fields.METHOD: method,
        log_fields.ROUTE: route,
        log_fields.STATUS: status,
        log_fields.DURATION_MS: duration_ms,
    }
    if client:
        fields[log_fields.CLIENT_REQUEST_ID] = client
    shown = f" client={client}" if client else ""
    access_log.info("%s %s %d %dms%s", request.method, path, status, duration_ms, shown, extra=fields)


def _elapsed_s(request: web.BaseRequest) -> float:
    return time.perf_counter() - request[_STARTED_AT]


def _clients_own(request: web.BaseRequest) -> str:
    given = request.headers.get("x-client-request-id", "")
    return given if _CLIENTS_OWN.fullmatch(given) else ""
