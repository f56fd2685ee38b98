"""How much of the process the checks of each tenant's answers may take.

A check holds the GIL for up to 20 ms. Without a budget, a tenant with many short answers and one costly schema could
keep it held all the time.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from antiphon_core.limits import ANSWER_CHECKS_NODES_PER_S, ANSWER_CHECKS_TENANTS_ITEMS_MAX

BURST_S = 2.0
"""A tenant that was idle may use the budget of so many seconds at once."""


class CheckBudgets:
    """A token bucket of nodes for each tenant. Safe to use from several threads."""

    def __init__(
        self, *, nodes_per_s: int = ANSWER_CHECKS_NODES_PER_S, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._nodes_per_s = nodes_per_s
        self._now_s = monotonic_s
        self._empty_until_s: OrderedDict[str, float] = OrderedDict()
        """When the bucket of a tenant is full again, less BURST_S. Missing tenants have a full one."""
        self._lock = Lock()

    def take(self, tenant: str, nodes: int) -> bool:
        """Takes so many nodes from the budget of a tenant. Returns False, and takes none, if they are not there."""
        with self._lock:
            now_s = self._now_s()
            used_until_s = max(self._empty_until_s.get(tenant, 0.0), now_s - BURST_S) + nodes / self._nodes_per_s
            if used_until_s > now_s:
                return False
            self._empty_until_s[tenant] = used_until_s
            self._empty_until_s.move_to_end(tenant)
            while len(self._empty_until_s) > ANSWER_CHECKS_TENANTS_ITEMS_MAX:
                self._empty_until_s.popitem(last=False)
            return True

    def __len__(self) -> int:
        return len(self._empty_until_s)
