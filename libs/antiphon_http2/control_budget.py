"""The limit of frames that carry nothing for a call: settings, pings, window updates, empty data, late frames.

A frame of 9 bytes takes 3 to 10 us, so a read of 256 KiB with nothing else stopped the event loop for 70 to 300 ms.
Honest servers send such frames for what they get: a window update for bytes of a body, a reset behind an answer. So the
budget is filled by the work of calls, and a little by time, for pings. A server that spends it is told
ENHANCE_YOUR_CALM.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon_http2.frames import ConnectionFault
from antiphon_http2.limits import CONTROL_ITEMS_MAX, CONTROL_ITEMS_PER_S
from antiphon_http2.statuses import ErrorCode
from antiphon_http2.token_bucket import TokenBucket

_ITEM_BYTES = 64  # of a payload: the entries of a SETTINGS frame and the fields of headers are read one by one
_SENT_BYTES = 1_024  # of bodies, for one frame
_CALL_ITEMS = 4  # for an answer's headers or trailers: late updates and the reset of its stream


class ControlBudget:
    """Counts frames, in items. `now_s` is a monotonic clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._bucket = TokenBucket(CONTROL_ITEMS_MAX, CONTROL_ITEMS_PER_S, now_s)

    def charge(self, size_bytes: int) -> None:
        """Counts a frame with a payload of this size. ConnectionFault: the budget is spent."""
        self._bucket.take(1 + size_bytes // _ITEM_BYTES)
        if self._bucket.is_empty:
            text = f"More than {CONTROL_ITEMS_MAX} frames without content came, {CONTROL_ITEMS_PER_S}/s."
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, text)

    def earn_for_call(self) -> None:
        """Adds the frames that may come with the headers, trailers or reset of a call."""
        self._bucket.give(_CALL_ITEMS)

    def earn_for_bytes(self, sent_bytes: int) -> None:
        """Adds the window updates that may come for bytes that were sent."""
        self._bucket.give(sent_bytes // _SENT_BYTES)
