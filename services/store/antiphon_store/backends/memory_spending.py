"""Spending of the memory engine: accounts in the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon_core.ports.spending import Spend, Spent
from antiphon_core.spending import Accounts


class MemorySpending:
    """Implements `roles.spending.SpendingAtoms` for MemoryBackend. As it never suspends, it is indivisible."""

    _accounts: Accounts

    if TYPE_CHECKING:

        def _now_ms(self) -> int: ...

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        return self._accounts.spend(tenant, spend, self._now_ms())
