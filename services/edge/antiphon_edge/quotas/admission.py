"""Admission: rate limits of tenants, limits of this process, and the headers that say what is left.

Every request of a tenant counts as one, except cancellations and probes. A request for a response also waits for the
tenant's tokens, and holds one of its stream slots for as long as the turn runs, also when its client has hung up and
the model goes on (stream_slots.py). So does a stream that is only read, and an open WebSocket. A WebSocket is admitted
here once; its handler admits each response in it (`limiter_of`).
"""

from __future__ import annotations

from aiohttp import web

from antiphon_edge.callers.authentication import is_open
from antiphon_edge.callers.tenancy import tenant_of
from antiphon_edge.http.http_errors import Handler
from antiphon_edge.quotas.rate_limits import RateLimiter, Standing

GENERATING_PATHS = frozenset({"/v1/responses", "/v1/responses/compact", "/v1/chat/completions"})

_LIMITER: web.AppKey[RateLimiter] = web.AppKey("rate limiter")
_STANDING: web.RequestKey[Standing] = web.RequestKey("standing", Standing)


def set_limiter(app: web.Application, limiter: RateLimiter) -> None:
    app[_LIMITER] = limiter


def limiter_of(request: web.Request) -> RateLimiter:
    """The limiter that counts for the tenant of this request."""
    return request.app[_LIMITER]


@web.middleware
async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Counts a request, or refuses it with when to come back."""
    if is_open(request) or _gives_back(request):
        return await handler(request)
    limiter, tenant = limiter_of(request), tenant_of(request)
    request[_STANDING] = limiter.standing(tenant)
    generates = request.method == "POST" and request.path in GENERATING_PATHS
    if not generates and not _streams(request):
        await limiter.admit(tenant, generates=False)
        return await handler(request)
    async with limiter.running(tenant, generates=generates):
        return await handler(request)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """A signal for `on_response_prepare`: the state of the limits, in OpenAI's headers."""
    standing = request.get(_STANDING)
    for quota in standing.quotas() if standing is not None else ():
        response.headers[f"x-ratelimit-limit-{quota.kind}"] = str(quota.limit)
        response.headers[f"x-ratelimit-remaining-{quota.kind}"] = str(quota.remaining)
        response.headers[f"x-ratelimit-reset-{quota.kind}"] = duration(quota.reset_s)


def duration(seconds: float) -> str:
    """As OpenAI writes them: 120ms, 1.5s, 6m0s."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"


def _gives_back(request: web.Request) -> bool:
    return request.method == "POST" and request.path.endswith("/cancel")


def _streams(request: web.Request) -> bool:
    websocket = request.headers.get("Upgrade", "").lower() == "websocket"
    return websocket or request.query.get("stream", "").lower() in ("true", "1")
