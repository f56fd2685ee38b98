"""Errors on HTTP: whatever a handler raises leaves as OpenAI's envelope, with the status of the table of errors."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable

from aiohttp import web

from antiphon_core.errors import (
    AntiphonError,
    InternalError,
    InvalidApiKey,
    TooLarge,
    Unavailable,
    envelope,
    row_of,
)
from antiphon_core.jsons import dumps
from antiphon_core.limits import BODY_BYTES_MAX

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

RETRY_AFTER_S = 1
_BETTER_WAYS = ("Allow", "Upgrade", "Connection", "Sec-WebSocket-Version")


@web.middleware
async def errors_as_envelopes(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except AntiphonError as error:
        return _answer(error)
    except web.HTTPRequestEntityTooLarge:
        return _answer(TooLarge(f"The request body is larger than {BODY_BYTES_MAX} bytes."))
    except web.HTTPException as refusal:
        return _refusal(request, refusal)
    except ConnectionError:
        raise  # the client is gone: there is nobody to answer
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _answer(InternalError("The server had an error while processing your request. Its log says why."))


def _answer(error: AntiphonError) -> web.Response:
    return web.Response(
        status=row_of(error).http_status,
        body=dumps(envelope(error)),
        content_type="application/json",
        headers=_headers(error),
    )


def _headers(error: AntiphonError) -> dict[str, str]:
    """When to come back, or how to be let in. SDKs read the milliseconds first."""
    if isinstance(error, InvalidApiKey):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, Unavailable):
        return {"Retry-After": str(RETRY_AFTER_S)}
    if "retry_after_ms" in error.facts:
        wait_ms = int(error.facts["retry_after_ms"])
        return {"Retry-After": str(math.ceil(wait_ms / 1000)), "retry-after-ms": str(wait_ms)}
    return {}


def _refusal(request: web.Request, refusal: web.HTTPException) -> web.Response:
    """aiohttp's own refusals (no such route, wrong method) in the same envelope, with what they say of a better way."""
    wording = {
        404: ("unknown_url", f"Unknown request URL: {request.method} {request.path}."),
        405: ("method_not_allowed", f"{request.method} is not allowed on {request.path}."),
    }
    code, message = wording.get(refusal.status, (None, refusal.reason))
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    better = {name: refusal.headers[name] for name in _BETTER_WAYS if name in refusal.headers}
    return web.Response(status=refusal.status, body=dumps(body), content_type="application/json", headers=better)
