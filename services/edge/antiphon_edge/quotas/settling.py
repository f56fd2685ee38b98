"""Settles quotas in the background: charges tokens, releases stream slots, and renews slots that are still held.

Each tenant has at most one call in flight; the next call batches everything that came up meanwhile. So a renewal cannot
overtake the release of its slot, and a busy tenant costs few calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from antiphon_core.limits import QUOTA_SLOTS_ITEMS_MAX
from antiphon_core.ports.quotas import Draw, Hold, QuotaAnswer, QuotaRequest, Quotas
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

RENEWALS_PER_TTL = 3


@dataclass(slots=True)
class _Unsettled:
    """The state of one tenant: tokens to charge, slots to release, and slots that are held."""

    tokens: int = 0
    ended: set[str] = field(default_factory=set)
    held: dict[str, None] = field(default_factory=dict)
    is_renewal_due: bool = False
    settling: asyncio.Task[None] | None = None

    @property
    def is_due(self) -> bool:
        return bool(self.tokens or self.ended or self.is_renewal_due)


class QuotaSettler:
    """Charges tokens and keeps stream slots in a counter, in tasks of its own."""

    def __init__(
        self,
        counts: Quotas,
        *,
        ttl_s: float,
        charge_of: Callable[[int], Draw],
        on_answer: Callable[[str, QuotaAnswer], None],
    ) -> None:
        """`ttl_s`: how long a slot is held without renewal. `charge_of` makes the draw for a number of tokens.
        `on_answer` gets the tenant and each answer to a charge or release."""
        self._counts = counts
        self._ttl_s = ttl_s
        self._charge_of = charge_of
        self._on_answer = on_answer
        self._unsettled: dict[str, _Unsettled] = {}
        self._renewing: asyncio.Task[None] | None = None

    def charge(self, tenant: str, tokens: int) -> None:
        if tokens:
            unsettled = self._of(tenant)
            unsettled.tokens += tokens
            self._settle(tenant, unsettled)

    def hold(self, tenant: str, slot: str) -> None:
        """Renews a slot that was taken, until `end`."""
        self._of(tenant).held[slot] = None
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_until_none_is_held(), name="slots")

    def end(self, tenant: str, slot: str) -> None:
        unsettled = self._of(tenant)
        unsettled.held.pop(slot, None)
        unsettled.ended.add(slot)
        self._settle(tenant, unsettled)

    def ended_slots(self, tenant: str) -> list[str]:
        """Slots that ended and may not be released yet. A call that takes a slot releases these, too."""
        unsettled = self._unsettled.get(tenant)
        return list(islice(unsettled.ended, QUOTA_SLOTS_ITEMS_MAX)) if unsettled is not None else []

    async def close(self) -> None:
        """Stops renewals, and returns when everything is settled."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        while settling := [each.settling for each in self._unsettled.values() if each.settling is not None]:
            await asyncio.wait(settling)

    def _of(self, tenant: str) -> _Unsettled:
        return self._unsettled.setdefault(tenant, _Unsettled())

    def _settle(self, tenant: str, unsettled: _Unsettled) -> None:
        if unsettled.settling is None:
            unsettled.settling = asyncio.create_task(
                self._settle_all(tenant, unsettled), name=f"settling quotas of {tenant}"
            )

    async def _settle_all(self, tenant: str, unsettled: _Unsettled) -> None:
        try:
            while unsettled.is_due:
                if unsettled.tokens or unsettled.ended:
                    await self._charge_and_release(tenant, unsettled)
                else:
                    await self._renew(tenant, unsettled)
        except Exception:
            log.exception("the tokens or stream slots of %s could not be settled", tenant, extra=remedies.REPORT)
        finally:
            unsettled.settling = None
            if not unsettled.held and not unsettled.is_due:
                del self._unsettled[tenant]

    async def _charge_and_release(self, tenant: str, unsettled: _Unsettled) -> None:
        tokens, unsettled.tokens = unsettled.tokens, 0
        ended = list(islice(unsettled.ended, QUOTA_SLOTS_ITEMS_MAX))
        draws = (self._charge_of(tokens),) if tokens else ()
        try:
            self._on_answer(tenant, await self._counts.take_quota(tenant, QuotaRequest(draws, release=ended)))
        finally:
            unsettled.ended.difference_update(ended)

    async def _renew(self, tenant: str, unsettled: _Unsettled) -> None:
        unsettled.is_renewal_due = False
        slots = list(unsettled.held)
        for first in range(0, len(slots), QUOTA_SLOTS_ITEMS_MAX):
            held = [slot for slot in slots[first : first + QUOTA_SLOTS_ITEMS_MAX] if slot in unsettled.held]
            if held:
                await self._counts.take_quota(tenant, QuotaRequest(hold=Hold(held, round(self._ttl_s * 1000))))

    async def _renew_until_none_is_held(self) -> None:
        while any(unsettled.held for unsettled in self._unsettled.values()):
            await asyncio.sleep(self._ttl_s / RENEWALS_PER_TTL)
            for tenant, unsettled in list(self._unsettled.items()):
                if unsettled.held:
                    unsettled.is_renewal_due = True
                    self._settle(tenant, unsettled)
