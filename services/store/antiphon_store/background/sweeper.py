"""The rounds of sweeping that a store makes by itself: every tenant, one after the other, then a pause.

Sweeping changes no answer, so any number of replicas may do it, and a round that breaks is only late.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress

from antiphon_core import limits
from antiphon_core.errors import AntiphonError
from antiphon_core.telemetry import metrics, remedies
from antiphon_store.service import StoreService

log = logging.getLogger(__name__)


class Sweeper:
    """Sweeps all tenants of a store, every `every_s` seconds or so; None means never."""

    def __init__(self, store: StoreService, *, every_s: int | None) -> None:
        self._store = store
        self._every_s = every_s
        self._rounds: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._every_s is not None:
            self._rounds = asyncio.create_task(self._sweep_for_ever(self._every_s), name="sweeper")

    async def stop(self) -> None:
        if self._rounds is not None:
            self._rounds.cancel()
            with suppress(asyncio.CancelledError):
                await self._rounds

    async def sweep_all(self) -> int:
        """One round: how many things were reclaimed. AntiphonError: the store could not go on."""
        reclaimed = 0
        for tenant in await self._store.tenants():
            reclaimed += await self._sweep(tenant)
        return reclaimed

    async def _sweep(self, tenant: str) -> int:
        reclaimed, has_more = 0, True
        while has_more:
            swept = await self._store.sweep(tenant, limit=limits.SWEEP_ITEMS_DEFAULT)
            reclaimed += swept.records
            metrics.STORE_SWEPT.of().add(swept.records)
            has_more = swept.has_more and swept.records > 0
        return reclaimed

    async def _sweep_for_ever(self, every_s: int) -> None:
        while True:
            await asyncio.sleep(every_s * random.uniform(0.8, 1.2))  # noqa: S311 - spreads replicas, hides nothing
            try:
                reclaimed = await self.sweep_all()
            except AntiphonError as error:
                log.warning("a round of sweeping ended early: %s", error)
            except Exception:
                log.exception("a round of sweeping broke", extra=remedies.REPORT)
            else:
                log.debug("swept %d", reclaimed)
