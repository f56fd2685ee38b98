"""The work that a server does for calls whose callers it does not know: rejected ones, health checks, and calls of
methods that it does not have.

Each connection has a budget for such calls, and all connections of an address on which nobody was authenticated share a
larger one. A call is charged when it begins, and what it was charged comes back when its caller is authenticated. So a
client with a valid token is not limited by other clients behind its address.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from antiphon_http2.limits import (
    ADDRESS_ITEMS_MAX,
    ADDRESS_ITEMS_PER_S,
    ADDRESSES_ITEMS_MAX,
    CONNECTION_ITEMS,
    STRANGER_ITEMS_MAX,
    STRANGER_ITEMS_PER_S,
)
from antiphon_http2.token_bucket import TokenBucket


class StrangerBudget:
    """The budget of one connection. `now_s` is a monotonic clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._own = TokenBucket(STRANGER_ITEMS_MAX, STRANGER_ITEMS_PER_S, now_s)
        self._address: TokenBucket | None = None
        self._opening_items = 0
        self._shared_items = 0  # that calls charged to the address, and did not get back
        self.is_known = False  # a caller was authenticated on this connection

    def share(self, address: TokenBucket, items: int = CONNECTION_ITEMS) -> None:
        """Makes the connection one of those that share the budget of their address. `items` are charged for itself."""
        self._address, self._opening_items = address, items
        address.take(items)

    def charge(self, items: int) -> None:
        """Counts the work for a call whose caller is not known yet."""
        self._own.take(items)
        if not self.is_known and self._address is not None:
            self._address.take(items)
            self._shared_items += items

    def refund(self, items: int) -> None:
        """Gives back what a call was charged, because its caller was authenticated."""
        self._own.give(items)
        if self._address is not None:  # calls that began beside the first known one were charged to it, too
            given_back = min(items, self._shared_items)
            self._shared_items -= given_back
            self._address.give(given_back + (0 if self.is_known else self._opening_items))
        self.is_known = True

    @property
    def is_spent(self) -> bool:
        return self._own.is_empty or (not self.is_known and self._address is not None and self._address.is_empty)


class AddressBudgets:
    """The budgets of the addresses of one server's clients: those that connected last. `now_s` is a monotonic clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def of(self, address: str) -> TokenBucket:
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = self._buckets[address] = TokenBucket(ADDRESS_ITEMS_MAX, ADDRESS_ITEMS_PER_S, self._now_s)
        self._buckets.move_to_end(address)
        if len(self._buckets) > ADDRESSES_ITEMS_MAX:
            self._buckets.popitem(last=False)
        return bucket
