"""Counters of quotas: the store counts for all edges together, or each edge counts its part.

    SharedCounts    counts in the store, and in OwnShare while the store does not answer
    OwnShare        counts in this process, with each limit divided by the number of edges: exact while a load balancer
                    spreads a tenant's requests evenly

A call to the store has a timeout of STORE_TIMEOUT_S. While the store does not answer, one request in PAUSE_S tries it;
the others do not wait, so requests that need no store are still answered. A request that timed out may have reached the
store, and is then counted in both.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import replace

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError
from antiphon_core.ports.quotas import Draw, Hold, QuotaAnswer, QuotaRequest, Quotas
from antiphon_core.quotas import LocalQuotas

log = logging.getLogger(__name__)

STORE_TIMEOUT_S = 0.25
PAUSE_S = 2.0


class OwnShare:
    """Implements `antiphon_core.ports.quotas.Quotas` in the memory of this process, with a part of each limit."""

    def __init__(self, replicas: int, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock
        self._quotas = LocalQuotas()

    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        return self._quotas.take(tenant, divide(quota_request, self._replicas), round(self._clock.monotonic() * 1000))


class SharedCounts:
    """Implements `antiphon_core.ports.quotas.Quotas`: counts in the store, and in `own` while the store fails or is
    slow. An error of the store is logged, not raised."""

    def __init__(self, store: Quotas, own: Quotas, clock: Clock) -> None:
        self._store = store
        self._own = own
        self._clock = clock
        self._is_answering = True
        self._retry_at_s = 0.0

    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        answer = await self._take_in_store(tenant, quota_request) if self._take_attempt() else None
        return await self._own.take_quota(tenant, quota_request) if answer is None else answer

    def _take_attempt(self) -> bool:
        """Whether this request calls the store: always while it answers, else one request in PAUSE_S."""
        now_s = self._clock.monotonic()
        if not self._is_answering:
            if now_s < self._retry_at_s:
                return False
            self._retry_at_s = now_s + PAUSE_S
        return True

    async def _take_in_store(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer | None:
        """The store's answer; None after a timeout or an error."""
        call = asyncio.ensure_future(self._store.take_quota(tenant, quota_request))
        call.add_done_callback(_retrieve_error)
        try:
            await asyncio.wait([call], timeout=STORE_TIMEOUT_S)
        finally:
            call.cancel()
        try:
            answer = call.result() if call.done() and not call.cancelled() else None
        except AntiphonError as error:
            self._fall_back(error.message)
            return None
        if answer is None:
            self._fall_back("The store does not answer.")
        elif not self._is_answering:
            self._is_answering = True
            log.warning("rate limits are shared again: the store answers")
        return answer

    def _fall_back(self, why: str) -> None:
        self._retry_at_s = self._clock.monotonic() + PAUSE_S
        if self._is_answering:
            self._is_answering = False
            log.warning("each edge counts its own part of the rate limits until the store answers again: %s", why)


def divide(quota_request: QuotaRequest, replicas: int) -> QuotaRequest:
    """A request with its limits divided by the number of edges. A part of a bucket holds at least one unit."""
    hold = quota_request.hold
    return QuotaRequest(
        draws=[_part(draw, replicas) for draw in quota_request.draws],
        hold=Hold(hold.ids, hold.ttl_ms, math.ceil(hold.most / replicas)) if hold is not None else None,
        release=quota_request.release,
    )


def _part(draw: Draw, replicas: int) -> Draw:
    if not draw.capacity:
        return draw
    return replace(draw, capacity=max(draw.capacity / replicas, 1.0), per_minute=draw.per_minute / replicas)


def _retrieve_error(call: asyncio.Future[QuotaAnswer]) -> None:
    """Retrieves the error of a call that was given up, so that asyncio does not log it."""
    if not call.cancelled():
        call.exception()
