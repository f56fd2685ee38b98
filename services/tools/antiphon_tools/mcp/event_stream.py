"""Reads server-sent events by the standard's rules, as far as MCP uses them: the data of each event. No I/O.

An event without data is no message: servers send one first, so that clients can resume.
"""

from __future__ import annotations

from antiphon_tools.mcp.faults import unusable

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """Splits bytes into the data of events. Chunks may be cut anywhere."""

    def __init__(self, event_bytes_max: int) -> None:
        self._event_bytes_max = event_bytes_max
        self._line: list[bytes] = []  # parts of the unfinished line: joined when it ends, not with every read
        self._data: list[bytes] = []
        self._bytes = 0
        self._is_first = True
        self._ended_in_return = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that are complete now. ProtocolFault: an event is too long."""
        if self._ended_in_return:  # a line end of two bytes, in two reads
            chunk = chunk.removeprefix(b"\n")
        self._ended_in_return = chunk.endswith(b"\r")
        events: list[bytes] = []
        for line in chunk.splitlines(keepends=True):
            self._line.append(line)
            self._bytes += len(line)
            if line.endswith((b"\n", b"\r")):
                self._end_line(events)
            if self._bytes > self._event_bytes_max:
                raise unusable(f"sent an event of more than {self._event_bytes_max} bytes (tools.wire_bytes)")
        return events

    def _end_line(self, events: list[bytes]) -> None:
        line = b"".join(self._line).rstrip(b"\r\n")
        self._line.clear()
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif not line:
            data = b"\n".join(self._data)
            if data:
                events.append(data)
            self._data.clear()
        if not self._data:
            self._bytes = 0
