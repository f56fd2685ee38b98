"""Admission: enforces rate limits of tenants and load limits of the process.

Every request of a tenant counts, except cancellations and probes. A request that generates a response is also rejected
while the tenant's tokens are used up, and holds one of its stream slots until the turn ends, even if the client has
disconnected and the model goes on (rate_limits.py). A stream that is only read holds a slot, too, and so does an open
WebSocket. A WebSocket is admitted here once; its handler admits each of its responses (`limiter_of`).
"""

from __future__ import annotations

from aiohttp import web

from antiphon_edge.callers.authentication import tenant_of
from antiphon_edge.http.http_errors import Handler
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.quotas.rate_limits import BucketLevels, RateLimiter

_LIMITER: web.AppKey[RateLimiter] = web.AppKey("rate limiter")
_LONG_WORK: web.AppKey[LongWork] = web.AppKey("long work")
_LEVELS: web.RequestKey[BucketLevels] = web.RequestKey("bucket levels", BucketLevels)


def set_limiter(app: web.Application, limiter: RateLimiter) -> None:
    app[_LIMITER] = limiter


def limiter_of(request: web.Request) -> RateLimiter:
    """The limiter that counts for the tenant of this request."""
    return request.app[_LIMITER]


def set_long_work(app: web.Application, long_work: LongWork) -> None:
    app[_LONG_WORK] = long_work


def long_work_of(request: web.Request) -> LongWork:
    """The budgets for long requests and answers, of all tenants."""
    return request.app[_LONG_WORK]


async def admit(request: web.Request, handler: Handler, *, generates: bool) -> web.StreamResponse:
    """Counts a request, or rejects it with a `retry-after`."""
    limiter, tenant = request.app[_LIMITER], tenant_of(request)
    request.app[_LONG_WORK].note_request(tenant)
    if limiter.has_limits:
        request[_LEVELS] = limiter.levels_of(tenant)
    if not generates and not _streams(request):
        await limiter.admit(tenant, generates=False)
        return await handler(request)
    async with limiter.running(tenant, generates=generates):
        return await handler(request)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: adds the state of the rate limits, in OpenAI's headers."""
    levels = request.get(_LEVELS)
    for quota in levels.quotas() if levels is not None else ():
        response.headers[f"x-ratelimit-limit-{quota.kind}"] = str(quota.limit)
        response.headers[f"x-ratelimit-remaining-{quota.kind}"] = str(quota.remaining)
        response.headers[f"x-ratelimit-reset-{quota.kind}"] = duration(quota.reset_s)


def duration(seconds: float) -> str:
    """A duration in OpenAI's format: 120ms, 1.5s, 6m0s."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"


def _streams(request: web.Request) -> bool:
    websocket = request.headers.get("Upgrade", "").lower() == "websocket"
    return websocket or request.query.get("stream", "").lower() in ("true", "1")
