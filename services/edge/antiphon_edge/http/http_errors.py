"""HTTP errors: each exception of a handler becomes OpenAI's error envelope, with the status from the table of errors.

An answer that has begun cannot become an error. A stream that fails ends its connection before the end of the body, so
the client sees that the stream is incomplete.
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
    ApprovalAlreadyUsed,
    Conflict,
    DataDamaged,
    EngineFault,
    EngineMisconfigured,
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
    ServiceFault,
    SessionLocked,
    SessionLost,
    StaleFence,
    StatusMismatch,
    StoreUnavailable,
    Timeout,
    TokenRateExceeded,
    TooLarge,
    ToolsUnavailable,
    TranslatorUnavailable,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    VersionMismatch,
    row_of,
)
from antiphon_core.jsons import dumps
from antiphon_core.limits import BODY_BYTES_MAX, CHUNK_FRAMING_BYTES_MAX
from antiphon_core.unexpected import as_antiphon_error
from antiphon_edge.http.chunk_framing import FramingTooLarge
from antiphon_edge.http.incomplete_requests import BodyTimeout

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

RETRY_AFTER_S = 1
FRAMING_TOO_LARGE = (
    f"The chunks of the request body have more than {CHUNK_FRAMING_BYTES_MAX} bytes of sizes, extensions and trailers. "
    "Send larger chunks, or the body in one piece."
)
NOSNIFF = {"X-Content-Type-Options": "nosniff"}
"""A header of every answer: answers quote what callers wrote, and no browser may take them for a page."""
_PASSED_HEADERS = ("Allow", "Upgrade", "Connection", "Sec-WebSocket-Version")
SHOULD_RETRY: Mapping[type[AntiphonError], bool] = {
    Unauthenticated: False,  # between services: an operator has to fix the tokens
    PermissionDenied: False,
    Conflict: False,
    AlreadyExists: False,
    ApprovalAlreadyUsed: False,
    VersionMismatch: False,
    StatusMismatch: False,
    SessionLost: True,  # nothing of the turn was stored
    StaleFence: True,  # another turn took the session; the next request gets a lease of its own
    IdempotencyMismatch: False,
    PositionMismatch: False,
    LogClosed: False,
    SessionLocked: True,  # a 400; the session is free again in a few seconds
    RequestRateExceeded: True,
    TokenRateExceeded: True,
    Unavailable: True,
    StoreUnavailable: True,
    TranslatorUnavailable: True,
    ToolsUnavailable: True,  # raised before the first call
    EngineUnavailable: True,
    EngineOverloaded: True,
    Timeout: True,
    EngineTimeout: True,
    EngineFault: True,
    EngineMisconfigured: False,  # an operator has to correct the profile or the key of the model
    ServiceFault: True,  # another replica may answer
    Unimplemented: False,
    InternalError: True,
    DataDamaged: False,  # an operator has to restore it
}
"""The header `x-should-retry`: whether a retry of the same request may succeed. Without it SDKs retry 408, 409, 429 and
5xx, so every error with one of these statuses is listed."""

FAILED = "The server had an error while processing your request. Its log says why."

MALFORMED = "malformed_request"
"""The code of a request that is not valid HTTP, or whose body contradicts its headers."""


def status_of(error: Exception) -> int:
    """The HTTP status of the answer to an exception of a handler."""
    if isinstance(error, AntiphonError):
        return row_of(error).http_status
    if isinstance(error, web.HTTPException):
        return error.status
    if isinstance(error, BodyTimeout):
        return HTTPStatus.REQUEST_TIMEOUT
    if isinstance(error, FramingTooLarge):
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    if isinstance(error, MemoryError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.BAD_REQUEST if isinstance(error, web.RequestPayloadError) else HTTPStatus.INTERNAL_SERVER_ERROR


def answer_to(request: web.Request, error: Exception) -> web.Response:
    """The answer to an exception of a handler, in OpenAI's envelope."""
    if isinstance(error, AntiphonError):
        return _answer(error)
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return _answer(TooLarge(f"The request body is larger than {BODY_BYTES_MAX} bytes."))
    if isinstance(error, web.HTTPException):
        return _answer_of_aiohttp(request, error)
    if isinstance(error, BodyTimeout):
        return _body_timeout(status_of(error))
    if isinstance(error, FramingTooLarge):
        return _answer(TooLarge(FRAMING_TOO_LARGE))
    if isinstance(error, web.RequestPayloadError):
        return _unreadable_body(status_of(error))
    return _answer(as_antiphon_error(error, f"{request.method} {request.rel_url.raw_path}", FAILED))


def rejection(status: int, code: str | None, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """The answer to a request that is rejected at the level of HTTP, in the envelope of all errors."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return web.Response(status=status, body=dumps(body), content_type="application/json", headers=headers)


def raw_rejection(status: int, code: str, message: str) -> bytes:
    """An answer such as that of `rejection`, as bytes: for a connection on which no request was parsed."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in NOSNIFF.items()),
        *([f"Retry-After: {RETRY_AFTER_S}"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _answer(error: AntiphonError) -> web.Response:
    body = envelope(error)
    if isinstance(error, IdempotencyMismatch):  # the store names its own argument
        body["error"]["param"] = "Idempotency-Key"
    return web.Response(
        status=status_of(error),
        body=dumps(body),
        content_type="application/json",
        headers=_headers(error),
    )


def _headers(error: AntiphonError) -> dict[str, str]:
    """Headers about retries and authentication. SDKs prefer `retry-after-ms` to `Retry-After`."""
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


def _body_timeout(status: int) -> web.Response:
    answer = rejection(status, "request_timeout", "The rest of the request body did not arrive in time.")
    answer.force_close()  # the rest may still arrive, and must not be parsed as a request
    return answer


def _unreadable_body(status: int) -> web.Response:
    """Rejects a malformed body and closes the connection: where the next request would begin is unknown."""
    message = "The request body is not what its 'Content-Encoding' or 'Transfer-Encoding' says."
    answer = rejection(status, MALFORMED, message)
    answer.force_close()
    return answer


def _answer_of_aiohttp(request: web.Request, error: web.HTTPException) -> web.Response:
    """aiohttp's own errors (no such route, wrong method) in the envelope, with their headers that tell what to send."""
    wording = {
        404: ("unknown_url", f"Unknown request URL: {request.method} {request.path}."),
        405: ("method_not_allowed", f"{request.method} is not allowed on {request.path}."),
    }
    code, message = wording.get(error.status, (None, error.reason))
    headers = {name: error.headers[name] for name in _PASSED_HEADERS if name in error.headers}
    return rejection(error.status, code, message, headers)
