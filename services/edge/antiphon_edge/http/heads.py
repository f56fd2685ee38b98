"""Heads of requests while they come in pieces: nobody knows yet whose they are, so they get little.

A head that comes in one piece is parsed at once and counts nothing. aiohttp bounds each header and their number, which
leaves 8 MiB for one head.
"""

from __future__ import annotations

from antiphon_core.limits import HEAD_BYTES_MAX
from antiphon_edge.http.byte_budget import ByteBudget
from antiphon_edge.http.http_errors import raw_refusal

HEAD_REFUSED = raw_refusal(
    431,
    "header_too_large",
    f"The head of the request has more than {HEAD_BYTES_MAX} bytes, or the server receives too many heads at once.",
)


class HeadBound:
    """Counts the head that one connection sends."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._peer = ""
        self._size = 0

    def has_room(self, peer: str, size: int, *, is_in_head: bool) -> bool:
        """Counts a piece, if it is one of a head; what else comes ends the head. Whether there is room for it."""
        if not is_in_head:
            self.clear()
            return True
        if self._size + size > HEAD_BYTES_MAX or self._budget.take(peer, size) is not None:
            return False
        self._peer = peer
        self._size += size
        return True

    def clear(self) -> None:
        """The head is complete, or nothing comes any more."""
        if self._size:
            self._budget.give_back(self._peer, self._size)
            self._size = 0
