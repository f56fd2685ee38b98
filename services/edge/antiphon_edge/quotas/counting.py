"""Counters of quotas: the store counts for all edges together, or each edge counts its part.

    SharedCounts    asks the store. While the store does not answer, its place is taken by
    OwnShare        this process, with each limit divided by the number of edges: exact while a load balancer spreads a
                    tenant's requests evenly

The timeout of a call to the store is PATIENCE_S, and while the store is gone one request in PAUSE_S waits at all:
requests that need no store are answered also when there is none. A spend that timed out may have happened, and is then
counted both here and in the store.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import replace

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError
from antiphon_core.ports.spending import Draw, Hold, Spend, Spending, Spent
from antiphon_core.spending import Accounts

log = logging.getLogger(__name__)

PATIENCE_S = 0.25
PAUSE_S = 2.0


class OwnShare:
    """Implements `antiphon_core.ports.spending.Spending`: counts in this process, a part of each limit. It forgets when
    the process ends."""

    def __init__(self, replicas: int, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock
        self._accounts = Accounts()

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        return self._accounts.spend(tenant, divided(spend, self._replicas), round(self._clock.monotonic() * 1000))


class SharedCounts:
    """Implements `antiphon_core.ports.spending.Spending`: counts in the store, and in `own` while that cannot. Never
    raises because of the store."""

    def __init__(self, store: Spending, own: Spending, clock: Clock) -> None:
        self._store = store
        self._own = own
        self._clock = clock
        self._is_answering = True
        self._ask_again_s = 0.0

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        spent = await self._ask(tenant, spend) if self._is_time_to_ask() else None
        return await self._own.spend(tenant, spend) if spent is None else spent

    def _is_time_to_ask(self) -> bool:
        """While the store does not answer, one in a while asks for all."""
        now_s = self._clock.monotonic()
        if not self._is_answering:
            if now_s < self._ask_again_s:
                return False
            self._ask_again_s = now_s + PAUSE_S
        return True

    async def _ask(self, tenant: str, spend: Spend) -> Spent | None:
        """The store's answer; None when there is none in time."""
        call = asyncio.ensure_future(self._store.spend(tenant, spend))
        call.add_done_callback(_hear)
        try:
            await asyncio.wait([call], timeout=PATIENCE_S)
        finally:
            call.cancel()
        try:
            spent = call.result() if call.done() and not call.cancelled() else None
        except AntiphonError as error:
            self._do_without(error.message)
            return None
        if spent is None:
            self._do_without("The store does not answer.")
        elif not self._is_answering:
            self._is_answering = True
            log.warning("rate limits are shared again: the store answers")
        return spent

    def _do_without(self, why: str) -> None:
        self._ask_again_s = self._clock.monotonic() + PAUSE_S
        if self._is_answering:
            self._is_answering = False
            log.warning("each edge counts its own part of the rate limits until the store does: %s", why)


def divided(spend: Spend, replicas: int) -> Spend:
    """The part of a spend that one of so many edges makes by itself. One unit always fits into its part of a bucket."""
    hold = spend.hold
    return Spend(
        draws=[_part(draw, replicas) for draw in spend.draws],
        hold=Hold(hold.ids, hold.ttl_ms, math.ceil(hold.most / replicas)) if hold is not None else None,
        release=spend.release,
    )


def _part(draw: Draw, replicas: int) -> Draw:
    if not draw.capacity:
        return draw
    return replace(draw, capacity=max(draw.capacity / replicas, 1.0), per_minute=draw.per_minute / replicas)


def _hear(call: asyncio.Future[Spent]) -> None:
    """Reads the error of a call that nobody waits for any more, so that asyncio does not log it."""
    if not call.cancelled():
        call.exception()
