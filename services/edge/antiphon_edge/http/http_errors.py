"""Errors on HTTP: whatever a handler raises leaves as OpenAI's envelope, with the status of the table of errors.

A stream that breaks off has begun its answer: its connection ends in the middle, without the end of a stream, and its
client knows that there is more.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web

from antiphon_core.error_forms import envelope
from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    Conflict,
    EngineFault,
    EngineOverloaded,
    EngineTimeout,
    EngineUnavailable,
    IdempotencyMismatch,
    InternalError,
    InvalidApiKey,
    LogClosed,
    PermissionDenied,
    PositionMismatch,
    RequestRateExceeded,
    SessionLocked,
    SessionLost,
    StaleFence,
    StatusMismatch,
    StoreUnavailable,
    Timeout,
    TokenRateExceeded,
    TooLarge,
    TranslatorUnavailable,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    VersionMismatch,
    row_of,
)
from antiphon_core.jsons import dumps
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_core.telemetry import remedies
from antiphon_edge.http.slow_senders import BodyTimeout

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

RETRY_AFTER_S = 1
_BETTER_WAYS = ("Allow", "Upgrade", "Connection", "Sec-WebSocket-Version")
SHOULD_RETRY: Mapping[type[AntiphonError], bool] = {
    Unauthenticated: False,  # between services: an operator has to mend it
    PermissionDenied: False,
    Conflict: False,
    AlreadyExists: False,
    VersionMismatch: False,
    StatusMismatch: False,
    SessionLost: True,  # nothing of it was kept
    StaleFence: True,  # somebody else had the session; the next request gets a lease of its own
    IdempotencyMismatch: False,
    PositionMismatch: False,
    LogClosed: False,
    SessionLocked: True,  # a 400, and free again in a few seconds
    RequestRateExceeded: True,
    TokenRateExceeded: True,
    Unavailable: True,
    StoreUnavailable: True,
    TranslatorUnavailable: True,
    EngineUnavailable: True,
    EngineOverloaded: True,
    Timeout: True,
    EngineTimeout: True,
    EngineFault: True,
    Unimplemented: False,
    InternalError: True,
}
"""Whether the same request may do better the next time. SDKs go by the status otherwise, and repeat 408, 409, 429 and
5xx: what has one of these stands here."""

MALFORMED = "malformed_request"
"""The code of what is no HTTP, or whose body is not what its headers say."""


def enveloping(handler: Handler) -> Handler:
    """A handler that answers with an envelope where another one raises."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except ConnectionError:
            raise  # the client is gone: there is nobody to answer
        except Exception as error:
            if request.writer.output_size:
                raise  # what has begun cannot become another answer: aiohttp logs it, and ends the connection
            return _answer_to(request, error)

    return handle


def _answer_to(request: web.Request, error: Exception) -> web.Response:
    if isinstance(error, AntiphonError):
        return _answer(error)
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return _answer(TooLarge(f"The request body is larger than {BODY_BYTES_MAX} bytes."))
    if isinstance(error, web.HTTPException):
        return _refusal(request, error)
    if isinstance(error, BodyTimeout):
        return _lacking_body()
    if isinstance(error, web.RequestPayloadError):
        return _unreadable_body()
    log.error("%s %s failed", request.method, request.rel_url.raw_path, exc_info=error, extra=remedies.REPORT)
    return _answer(InternalError("The server had an error while processing your request. Its log says why."))


def refuse(status: int, code: str | None, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """The answer to what is wrong with a request as HTTP, in the envelope of all errors."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return web.Response(status=status, body=dumps(body), content_type="application/json", headers=headers)


def raw_refusal(status: int, code: str, message: str) -> bytes:
    """`refuse` as bytes, for a connection on which no request was read."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *([f"Retry-After: {RETRY_AFTER_S}"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _answer(error: AntiphonError) -> web.Response:
    return web.Response(
        status=row_of(error).http_status,
        body=dumps(envelope(error)),
        content_type="application/json",
        headers=_headers(error),
    )


def _headers(error: AntiphonError) -> dict[str, str]:
    """Whether and when to come back, or how to be let in. SDKs read the milliseconds first."""
    headers = {}
    if type(error) in SHOULD_RETRY:
        headers["x-should-retry"] = "true" if SHOULD_RETRY[type(error)] else "false"
    if isinstance(error, InvalidApiKey):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if "retry_after_ms" in error.facts:
        wait_ms = int(error.facts["retry_after_ms"])
        headers |= {"Retry-After": str(math.ceil(wait_ms / 1000)), "retry-after-ms": str(wait_ms)}
    return headers


def _lacking_body() -> web.Response:
    answer = refuse(408, "request_timeout", "The rest of the request body did not come in time.")
    answer.force_close()  # should it come after all, it is no request
    return answer


def _unreadable_body() -> web.Response:
    """Rejects an unreadable body and closes the connection: nobody knows where the next request begins."""
    message = "The request body is not what its 'Content-Encoding' or 'Transfer-Encoding' says."
    answer = refuse(400, MALFORMED, message)
    answer.force_close()
    return answer


def _refusal(request: web.Request, refusal: web.HTTPException) -> web.Response:
    """aiohttp's own refusals (no such route, wrong method) in the same envelope, with what they say of a better way."""
    wording = {
        404: ("unknown_url", f"Unknown request URL: {request.method} {request.path}."),
        405: ("method_not_allowed", f"{request.method} is not allowed on {request.path}."),
    }
    code, message = wording.get(refusal.status, (None, refusal.reason))
    better = {name: refusal.headers[name] for name in _BETTER_WAYS if name in refusal.headers}
    return refuse(refusal.status, code, message, better)
