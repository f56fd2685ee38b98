"""Reads server-sent events, as far as model servers use them: the data of each event.

Events end at a blank line, with line ends of any kind. Some servers leave the blank line out, behind the last event or
behind each. Their events are told apart all the same: a line that begins an object, behind a line that ends one, begins
an event, because no JSON has `}` and `{` beside each other.
"""

from __future__ import annotations

from antiphon_core.errors import EngineFault
from antiphon_core.limits import ENGINE_TEXT_BYTES_MAX

DONE = b"[DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_ENDS = (b"\n", b"\r")


class EventData:
    """Splits a stream of bytes into the data of its events. Comments and other fields are ignored."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the unfinished line: joined when it ends, not with every read
        self._part_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_first = True
        self._ended_in_return = False

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that are complete now. EngineFault: an event has more than ENGINE_TEXT_BYTES_MAX."""
        if self._ended_in_return:  # a line end of two bytes, in two reads
            received = received.removeprefix(b"\n")
        self._ended_in_return = received.endswith(b"\r")
        events: list[bytes] = []
        for line in received.splitlines(keepends=True):
            if not line.endswith(_LINE_ENDS):
                self._parts.append(line)
                self._part_bytes += len(line)
            else:
                self._take_line(self._whole(line.rstrip(b"\r\n")), events)
        if self._part_bytes + self._data_bytes > ENGINE_TEXT_BYTES_MAX:
            raise EngineFault("The engine sent an event that is too long.")
        return events

    def finish(self) -> list[bytes]:
        """The data of the last event, if the stream ended without the blank line behind it."""
        events: list[bytes] = []
        if self._parts:
            self._take_line(self._whole(b""), events)
        self._end_event(events)
        return events

    def _whole(self, end: bytes) -> bytes:
        """The line that has this end."""
        if self._parts:
            end = b"".join((*self._parts, end))
            self._parts.clear()
            self._part_bytes = 0
        if self._is_first:
            end = end.removeprefix(_BYTE_ORDER_MARK)
            self._is_first = False
        return end

    def _take_line(self, line: bytes, events: list[bytes]) -> None:
        if not line:
            self._end_event(events)
        elif line.startswith(b"data:"):
            data = line[5:].removeprefix(b" ")
            if self._data and self._data[-1].endswith(b"}") and (data.startswith(b"{") or data == DONE):
                self._end_event(events)
            self._data.append(data)
            self._data_bytes += len(data)

    def _end_event(self, events: list[bytes]) -> None:
        if self._data:
            events.append(b"\n".join(self._data) if len(self._data) > 1 else self._data[0])
            self._data.clear()
            self._data_bytes = 0
