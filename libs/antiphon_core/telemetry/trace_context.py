"""W3C Trace Context: the headers `traceparent` and `tracestate`."""

from __future__ import annotations

import re
from dataclasses import dataclass

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
TRACESTATE_CHARS_MAX = 512  # the length that the standard requires to pass on

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACESTATE = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The ids of a span, as the parent of other spans."""

    trace_id: str
    span_id: str
    is_sampled: bool
    state: str = ""
    """The `tracestate` header with data of other tracing systems, passed on unchanged."""

    @classmethod
    def parse(cls, traceparent: str, tracestate: str = "") -> TraceContext | None:
        """Parses the headers of a call; None if `traceparent` is missing or malformed."""
        found = _TRACEPARENT.fullmatch(traceparent)
        if found is None or (traceparent.startswith("00") and found[4]):
            return None
        is_usable = len(tracestate) <= TRACESTATE_CHARS_MAX and _TRACESTATE.fullmatch(tracestate)
        return cls(found[1], found[2], bool(int(found[3], 16) & 1), tracestate if is_usable else "")

    def headers(self) -> list[tuple[str, str]]:
        """The headers of a call that has this span as its parent."""
        parent = (TRACEPARENT, f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}")
        return [parent, (TRACESTATE, self.state)] if self.state else [parent]
