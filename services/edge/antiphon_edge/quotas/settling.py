"""Settles quotas outside of requests: tokens that were used, slots that were given back, slots still held.

Each tenant has one settlement under way at a time, which takes along all that came up meanwhile. So a slot is not held
again after its end, and a busy tenant costs fewer calls, not more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from antiphon_core.limits import SPEND_PLACES_ITEMS_MAX
from antiphon_core.ports.spending import Draw, Hold, Spend, Spending, Spent
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

RENEWALS_PER_TTL = 3


@dataclass(slots=True)
class _Account:
    """The open account of one tenant: tokens to be charged, slots that ended and slots that are held."""

    tokens: int = 0
    ended: set[str] = field(default_factory=set)
    held: dict[str, None] = field(default_factory=dict)
    is_renewal_due: bool = False
    settling: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return bool(self.tokens or self.ended or self.is_renewal_due)


class Settling:
    """Settles through `counts`; `on_spent` hears of each answer. `charge_of` is the draw for so many tokens. Slots are
    held for `ttl_s` at a time."""

    def __init__(
        self,
        counts: Spending,
        *,
        ttl_s: float,
        charge_of: Callable[[int], Draw],
        on_spent: Callable[[str, Spent], None],
    ) -> None:
        self._counts = counts
        self._ttl_s = ttl_s
        self._charge_of = charge_of
        self._on_spent = on_spent
        self._accounts: dict[str, _Account] = {}
        self._renewing: asyncio.Task[None] | None = None

    def charge(self, tenant: str, tokens: int) -> None:
        if tokens:
            account = self._of(tenant)
            account.tokens += tokens
            self._settle(tenant, account)

    def hold(self, tenant: str, slot: str) -> None:
        """The slot was taken: from now on it is held until its end."""
        self._of(tenant).held[slot] = None
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_for_ever(), name="slots")

    def end(self, tenant: str, slot: str) -> None:
        account = self._of(tenant)
        account.held.pop(slot, None)
        account.ended.add(slot)
        self._settle(tenant, account)

    def ended(self, tenant: str) -> list[str]:
        """Slots that ended and may not have been given back yet: whoever takes one gives them back first."""
        account = self._accounts.get(tenant)
        return list(islice(account.ended, SPEND_PLACES_ITEMS_MAX)) if account is not None else []

    async def close(self) -> None:
        """Returns when everything is settled."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        while settling := [each.settling for each in self._accounts.values() if each.settling is not None]:
            await asyncio.wait(settling)

    def _of(self, tenant: str) -> _Account:
        return self._accounts.setdefault(tenant, _Account())

    def _settle(self, tenant: str, account: _Account) -> None:
        if account.settling is None:
            account.settling = asyncio.create_task(self._settle_all(tenant, account), name=f"settling with {tenant}")

    async def _settle_all(self, tenant: str, account: _Account) -> None:
        try:
            while account.is_open:
                if account.tokens or account.ended:
                    await self._pay(tenant, account)
                else:
                    await self._renew(tenant, account)
        except Exception:
            log.exception("what %s took could not be settled", tenant, extra=remedies.REPORT)
        finally:
            account.settling = None
            if not account.held and not account.is_open:
                del self._accounts[tenant]

    async def _pay(self, tenant: str, account: _Account) -> None:
        tokens, account.tokens = account.tokens, 0
        ended = list(islice(account.ended, SPEND_PLACES_ITEMS_MAX))
        draws = (self._charge_of(tokens),) if tokens else ()
        try:
            self._on_spent(tenant, await self._counts.spend(tenant, Spend(draws, release=ended)))
        finally:
            account.ended.difference_update(ended)

    async def _renew(self, tenant: str, account: _Account) -> None:
        account.is_renewal_due = False
        slots = list(account.held)
        for first in range(0, len(slots), SPEND_PLACES_ITEMS_MAX):
            held = [slot for slot in slots[first : first + SPEND_PLACES_ITEMS_MAX] if slot in account.held]
            if held:
                await self._counts.spend(tenant, Spend(hold=Hold(held, round(self._ttl_s * 1000))))

    async def _renew_for_ever(self) -> None:
        while any(account.held for account in self._accounts.values()):
            await asyncio.sleep(self._ttl_s / RENEWALS_PER_TTL)
            for tenant, account in list(self._accounts.items()):
                if account.held:
                    account.is_renewal_due = True
                    self._settle(tenant, account)
