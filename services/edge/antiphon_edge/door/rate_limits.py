"""How much a tenant may ask for: requests a minute, tokens a minute, responses in progress at once.

The limits are counted in this process, each edge enforcing its part of them: a limit divided by `replicas`. That is
exact while a load balancer spreads a tenant's requests evenly, and costs no round trip. What is not shared is thereby
said: a tenant whose requests all reach one of three edges gets a third of its limit, and the tokens of background
responses are counted where they are generated.

A `RateLimiter` that counts for all edges together can take the place of the local one.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from antiphon_core.clock import Clock
from antiphon_core.errors import RequestRateExceeded, TokenRateExceeded
from antiphon_edge.door.token_bucket import MINUTE_S, TokenBucket

STREAM_RETRY_MS = 1_000  # when one of a tenant's running responses will end is not known


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Per tenant, for all edges together; 0 means that there is no such limit."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    streams: int = 0
    replicas: int = 1

    @property
    def any(self) -> bool:
        return bool(self.requests_per_minute or self.tokens_per_minute or self.streams)


@dataclass(frozen=True, slots=True)
class Quota:
    """What is left of a limit, for the headers. `kind` is `requests` or `tokens`."""

    kind: str
    limit: int
    remaining: int
    reset_s: float


class RateLimiter(Protocol):
    @property
    def counts_tokens(self) -> bool:
        """Whether `charge` does anything: the tokens of a response need not be looked up otherwise."""

    async def admit(self, tenant: str, *, generates: bool) -> None:
        """Counts a request, `generates` when it asks for tokens. RequestRateExceeded, TokenRateExceeded: not now."""

    def running(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """Holds a place among the tenant's responses in progress. RequestRateExceeded: they are all taken."""

    async def charge(self, tenant: str, tokens: int) -> None:
        """Counts tokens that were used, once that is known: input and output of a response. Never refused: what is over
        the limit is a debt, and requests wait until it is paid."""

    def quotas(self, tenant: str) -> Sequence[Quota]:
        """The tenant's limits as they stand."""


class LocalRateLimiter:
    """Counts in this process, this edge's part of each limit."""

    def __init__(self, limits: RateLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._tenants: dict[str, _Tenant] = {}
        self._sweep_at_s = clock.monotonic() + MINUTE_S

    @property
    def counts_tokens(self) -> bool:
        return self._limits.tokens_per_minute > 0

    async def admit(self, tenant: str, *, generates: bool) -> None:
        now_s = self._clock.monotonic()
        self._sweep(now_s)
        counted = self._of(tenant, now_s)
        if generates and counted.tokens is not None and counted.tokens.level(now_s) <= 0:
            raise _refusal(TokenRateExceeded, "tokens", self._limits.tokens_per_minute, counted.tokens.wait_s(1, now_s))
        if counted.requests is None:
            return
        if counted.requests.level(now_s) < 1:
            wait_s = counted.requests.wait_s(1, now_s)
            raise _refusal(RequestRateExceeded, "requests", self._limits.requests_per_minute, wait_s)
        counted.requests.spend(1, now_s)

    @asynccontextmanager
    async def running(self, tenant: str) -> AsyncIterator[None]:
        counted = self._of(tenant, self._clock.monotonic())
        most = math.ceil(self._limits.streams / self._limits.replicas)
        if most and counted.running >= most:
            raise RequestRateExceeded(
                f"Rate limit reached on responses in progress at once: Limit {self._limits.streams}. "
                "Please try again when one of them has ended.",
                retry_after_ms=STREAM_RETRY_MS,
            )
        counted.running += 1
        try:
            yield
        finally:
            counted.running -= 1

    async def charge(self, tenant: str, tokens: int) -> None:
        now_s = self._clock.monotonic()
        bucket = self._of(tenant, now_s).tokens
        if bucket is not None:
            bucket.spend(tokens, now_s)

    def quotas(self, tenant: str) -> Sequence[Quota]:
        now_s = self._clock.monotonic()
        counted = self._of(tenant, now_s)
        buckets = (("requests", counted.requests), ("tokens", counted.tokens))
        return [_quota(kind, bucket, now_s) for kind, bucket in buckets if bucket is not None]

    def _of(self, tenant: str, now_s: float) -> _Tenant:
        counted = self._tenants.get(tenant)
        if counted is None:
            limits = self._limits
            counted = self._tenants[tenant] = _Tenant(
                _bucket(limits.requests_per_minute / limits.replicas, now_s),
                _bucket(limits.tokens_per_minute / limits.replicas, now_s),
            )
        return counted

    def _sweep(self, now_s: float) -> None:
        """Forgets those who left nothing to remember, so that names of tenants do not pile up."""
        if now_s >= self._sweep_at_s:
            self._sweep_at_s = now_s + MINUTE_S
            self._tenants = {name: counted for name, counted in self._tenants.items() if not counted.idle(now_s)}


class _Tenant:
    """What is counted of one tenant."""

    __slots__ = ("requests", "running", "tokens")

    def __init__(self, requests: TokenBucket | None, tokens: TokenBucket | None) -> None:
        self.requests = requests
        self.tokens = tokens
        self.running = 0

    def idle(self, now_s: float) -> bool:
        buckets = (self.requests, self.tokens)
        return self.running == 0 and all(bucket is None or bucket.full(now_s) for bucket in buckets)


def _bucket(per_minute: float, now_s: float) -> TokenBucket | None:
    return TokenBucket(per_minute, now_s) if per_minute else None


def _quota(kind: str, bucket: TokenBucket, now_s: float) -> Quota:
    remaining = max(0, math.floor(bucket.level(now_s)))
    return Quota(kind, math.floor(bucket.capacity), remaining, bucket.wait_s(bucket.capacity, now_s))


def _refusal(
    error: type[RequestRateExceeded | TokenRateExceeded], kind: str, limit: int, wait_s: float
) -> RequestRateExceeded | TokenRateExceeded:
    wait_ms = math.ceil(wait_s * 1000)
    return error(
        f"Rate limit reached on {kind} per minute: Limit {limit}. Please try again in {wait_ms / 1000:g}s.",
        retry_after_ms=wait_ms,
    )
