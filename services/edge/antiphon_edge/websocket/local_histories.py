"""A cache of one connection's responses that are not stored. Only this connection can continue them.

The number of responses and their bytes are bounded; the least recently used one is evicted. Of a response that is
larger than the bound only the id is kept, so that a request that continues it gets an error with the reason. A response
for which the process has no room is not kept: clients send the whole context again, as after any lost connection.
"""

from __future__ import annotations

from collections import OrderedDict

from antiphon_core.byte_budget import Tally
from antiphon_core.errors import ChainTooLong
from antiphon_core.limits import SOCKET_HISTORIES_BYTES_MAX, SOCKET_HISTORIES_ITEMS_MAX

_TOO_LARGE: bytes | None = None


class LocalHistories:
    """The history of each response, by its id: its items and all items before it."""

    def __init__(
        self,
        tally: Tally | None = None,
        *,
        items_max: int = SOCKET_HISTORIES_ITEMS_MAX,
        bytes_max: int = SOCKET_HISTORIES_BYTES_MAX,
    ) -> None:
        """`tally` counts what is kept here in a budget of the process."""
        self._tally = tally
        self._items_max = items_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._histories: OrderedDict[str, bytes | None] = OrderedDict()
        self._lanes: dict[str, str | None] = {}

    def get(self, response_id: str | None) -> bytes | None:
        """The items up to and including a response; None if the response is not in the cache. ChainTooLong: the history
        was too large to keep."""
        if response_id is None or response_id not in self._histories:
            return None
        self._histories.move_to_end(response_id)
        history = self._histories[response_id]
        if history is _TOO_LARGE:
            raise ChainTooLong.of(response_id, limit=f"{self._bytes_max} bytes for responses that are not stored")
        return history

    def remember(self, response_id: str, history: bytes, *, lane: str | None = None) -> None:
        """Keeps the items up to and including a response that was made on `lane`."""
        self._forget(response_id)
        fits = len(history) <= self._bytes_max
        size = len(history) if fits else 0
        while self._bytes + size > self._bytes_max or len(self._histories) >= self._items_max:
            self._forget(next(iter(self._histories)))
        if self._tally is not None and self._tally.try_add(size) is not None:
            return
        self._bytes += size
        self._histories[response_id] = history if fits else _TOO_LARGE
        self._lanes[response_id] = lane

    def forget(self, response_id: str | None, *, lane: str | None = None) -> None:
        """Drops a response that was made on `lane`. One of another lane stays: that lane may continue it."""
        if response_id is not None and response_id in self._histories and self._lanes[response_id] == lane:
            self._forget(response_id)

    def _forget(self, response_id: str) -> None:
        self._bytes -= len(self._histories.pop(response_id, None) or b"")
        self._lanes.pop(response_id, None)
        if self._tally is not None:
            self._tally.shrink_to(self._bytes)
