"""Spending of the SQLite engine: in the process, not in the file. It is worth a minute, and no flush of the disk before
each request. So of several processes that serve one file each counts by itself."""

from __future__ import annotations

from typing import Protocol

from antiphon_core.ports.spending import Spend, Spent
from antiphon_core.spending import Accounts
from antiphon_store.backends.sqlite.threads import Threads


class _Counting(Threads, Protocol):
    """What spending needs besides."""

    _accounts: Accounts


class SqliteSpending:
    """Implements `roles.spending.SpendingAtoms` for SqliteBackend. As it never suspends, it is indivisible."""

    async def spend(self: _Counting, tenant: str, spend: Spend) -> Spent:
        self._writes.require_open()
        return self._accounts.spend(tenant, spend, self._now_ms())
