"""A place in a trace, as W3C Trace Context writes it in the headers `traceparent` and `tracestate`."""

from __future__ import annotations

import re
from dataclasses import dataclass

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
TRACESTATE_CHARS_MAX = 512  # what the standard asks everybody to pass on

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACESTATE = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span that others are children of."""

    trace_id: str
    span_id: str
    is_sampled: bool
    state: str = ""
    """The additions of other tracing systems, passed on as they came."""

    @classmethod
    def parse(cls, traceparent: str, tracestate: str = "") -> TraceContext | None:
        """The place that the headers of a call name; None if they name none."""
        found = _TRACEPARENT.fullmatch(traceparent)
        if found is None or (traceparent.startswith("00") and found[4]):
            return None
        is_usable = len(tracestate) <= TRACESTATE_CHARS_MAX and _TRACESTATE.fullmatch(tracestate)
        return cls(found[1], found[2], bool(int(found[3], 16) & 1), tracestate if is_usable else "")

    def headers(self) -> list[tuple[str, str]]:
        """The headers of a call below this span."""
        parent = (TRACEPARENT, f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}")
        return [parent, (TRACESTATE, self.state)] if self.state else [parent]
