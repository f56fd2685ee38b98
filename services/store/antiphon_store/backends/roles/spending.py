"""The operation of spending. What it writes need not be durable, as it is worth a minute. What becomes of buckets and
places is in `antiphon_core.spending`."""

from __future__ import annotations

from typing import Protocol

from antiphon_core.ports.spending import Spend, Spent


class SpendingAtoms(Protocol):
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        """All draws and places of a spend, or none of them, in one step with the look whether there is enough."""
