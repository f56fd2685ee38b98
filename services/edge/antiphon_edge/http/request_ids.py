"""Request ids, traces and access lines. Every answer has an `x-request-id`: the id that the client sent in this header
if it is valid, else a new one.

A client can also send an id as `x-client-request-id`. The access line has that id, too, so that the request can be
found when the client never saw its answer. If a client sends `traceparent`, all spans of the request belong to that
trace."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from contextlib import suppress

from aiohttp import web

from antiphon_core.ids import Ids, new_request_id
from antiphon_core.telemetry import correlation, log_fields, metrics, spans, tracing
from antiphon_core.telemetry.correlation import REQUEST_ID_KEY, Correlation
from antiphon_core.telemetry.spans import SpanKind
from antiphon_core.telemetry.trace_context import TRACEPARENT, TRACESTATE, TraceContext
from antiphon_edge import phases
from antiphon_edge.http.http_errors import NOSNIFF, Handler

access_log = logging.getLogger("antiphon_edge.access")

CLIENT_CLOSED_REQUEST = 499  # nginx's status for a client that disconnected; never sent, only in logs and metrics
OTHER_ROUTE = "other"
"""The route in metrics and access lines of a request whose path belongs to no route."""
OTHER_METHOD = "OTHER"

_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})
_USABLE = re.compile(r"[A-Za-z0-9._-]{1,128}")
_USABLE_CLIENT_ID = re.compile(r"[A-Za-z0-9._:-]{1,512}")  # OpenAI's length; no characters that could forge a log line
_STARTED_AT: web.RequestKey[float] = web.RequestKey("started_at", float)
_REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
ROUTE: web.RequestKey[str] = web.RequestKey("route", str)
"""The route of a request, for metrics and the access line. The application sets it when it has resolved the path."""
_SENT_STATUS: web.RequestKey[int] = web.RequestKey("sent_status", int)
"""The status that was sent to the client. `add_headers` sets it before the body is sent, because the handler of
a client that disconnects is cancelled and returns no answer."""


class RequestsInProgress:
    """Counts the requests that handlers work on, for a shutdown that waits for them. A WebSocket is one request until
    it is closed.

    aiohttp's own shutdown waits for each connection up to its timeout, cancels the handler, and then waits for as long
    again (`RequestHandler.shutdown`), so that a drain of 30 s took 60 s."""

    def __init__(self) -> None:
        self.count = 0
        self._none = asyncio.Event()

    def end(self) -> None:
        """Takes note that a request is answered."""
        self.count -= 1
        if not self.count:
            self._none.set()

    async def wait_end(self, timeout_s: float) -> None:
        """Returns when there are no requests, or after the timeout."""
        if not self.count:
            return
        self._none.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._none.wait()


def observe(handler: Handler, ids: Ids, in_progress: RequestsInProgress) -> Handler:
    """Wraps a handler: assigns the request id, counts the request while it is in progress, and writes a span, metrics
    and an access line at the end."""

    async def handle(request: web.Request) -> web.StreamResponse:
        assign(request, ids)
        method = request.method if request.method in _METHODS else OTHER_METHOD
        facts = {spans.HTTP_METHOD: method, spans.URL_SCHEME: request.scheme, spans.REQUEST_ID: request[_REQUEST_ID]}
        with tracing.span(method, SpanKind.SERVER, facts) as span:
            in_progress.count += 1
            try:
                answer = await handler(request)
                request[_SENT_STATUS] = answer.status
            finally:
                in_progress.end()
                status = request.get(_SENT_STATUS, CLIENT_CLOSED_REQUEST)
                route = request.get(ROUTE, OTHER_ROUTE)
                span.rename(f"{method} {route}")
                span.note({spans.HTTP_ROUTE: route, spans.HTTP_STATUS: status})
                if status >= 500:
                    span.fail(str(status))
                _observe(request, method, route, status)
        return answer

    return handle


def assign(request: web.BaseRequest, ids: Ids) -> None:
    """Assigns the id that the answer, the log lines and all calls for this request carry, and begins its trace."""
    given = request.headers.get(REQUEST_ID_KEY)
    request_id = given if given is not None and _USABLE.fullmatch(given) else new_request_id(ids)
    request[_REQUEST_ID], request[_STARTED_AT] = request_id, time.perf_counter()
    given = request.headers.get(TRACEPARENT)
    trace = TraceContext.parse(given, request.headers.get(TRACESTATE, "")) if given is not None else None
    correlation.begin(Correlation(request_id=request_id, trace=trace))
    phases.begin()


async def add_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: adds the headers of `headers_of`."""
    response.headers.update(headers_of(request))
    request[_SENT_STATUS] = response.status


def headers_of(request: web.BaseRequest) -> dict[str, str]:
    """The headers of every answer: request id, `Server`, OpenAI's version and time, and the durations of phases.
    Call `assign` first."""
    elapsed_s = _elapsed_s(request)
    return {
        "x-request-id": request[_REQUEST_ID],
        "Server": "antiphon",  # aiohttp's default reveals its version and Python's
        **NOSNIFF,
        "openai-version": "2020-10-01",
        "openai-processing-ms": str(round(elapsed_s * 1000)),
        phases.HEADER: phases.header(elapsed_s),
    }


def _observe(request: web.Request, method: str, route: str, status: int) -> None:
    duration_s = _elapsed_s(request)
    metrics.HTTP_REQUESTS.of(method, route, str(status)).add()
    metrics.HTTP_DURATION.of(method, route).observe(duration_s, correlation.sampled_trace_id())
    path = request.rel_url.raw_path  # not decoded: a decoded path could forge a log line
    client, duration_ms = _client_request_id(request), round(duration_s * 1000)
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


def _client_request_id(request: web.BaseRequest) -> str:
    given = request.headers.get("x-client-request-id", "")
    return given if _USABLE_CLIENT_ID.fullmatch(given) else ""
