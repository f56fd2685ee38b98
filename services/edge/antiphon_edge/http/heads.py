"""Size limits for the heads of requests that arrive in several pieces. Before its head is complete a request is not
authenticated, so these limits are small.

A head that arrives in one piece is parsed at once, and is not counted. The beginning of a head that arrives in the same
read as another request is counted (head_detector.py). aiohttp's own limits, for each header and for their number, would
allow a head of 8 MiB.
"""

from __future__ import annotations

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.limits import HEAD_BYTES_MAX
from antiphon_edge.http.http_errors import raw_rejection

HEAD_REJECTED = raw_rejection(
    431,
    "header_too_large",
    f"The head of the request has more than {HEAD_BYTES_MAX} bytes, or the server receives too many heads at once.",
)


class HeadBound:
    """Counts the bytes of the incomplete head of one connection."""

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._peer = ""
        self._size = 0

    def try_add(self, peer: str, size: int) -> bool:
        """Counts a piece of a head. Returns False if it exceeds a limit."""
        if self._size + size > HEAD_BYTES_MAX or self._budget.take(peer, size) is not None:
            return False
        self._peer = peer
        self._size += size
        return True

    def clear(self) -> None:
        """Gives the counted bytes back: the head is complete, or the connection ends."""
        if self._size:
            self._budget.give_back(self._peer, self._size)
            self._size = 0
