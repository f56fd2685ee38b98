"""Reads server-sent events, as far as model servers use them: the data of each event.

Events end at a blank line, with line ends of any kind. Some servers leave the blank line out, behind the last event or
behind each. Their events are told apart all the same: a line that begins an object, behind a line that ends one, begins
an event, because no JSON has `}` and `{` beside each other.

A server or a proxy that does not stream sends a body without any event. If it is a JSON object, it is read as the only
event.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_core.errors import EngineFault
from antiphon_core.limits import ENGINE_TEXT_BYTES_MAX

DONE = b"[DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_ENDS = (b"\n", b"\r")
_IGNORED = (b":", b"id:", b"retry:")
"""The beginnings of comments, and of the fields without a use here."""


@dataclass(frozen=True, slots=True)
class ErrorData:
    """The data of an event whose name says that the data is an error."""

    data: bytes


Data = bytes | ErrorData


class EventData:
    """Splits a stream of bytes into the data of its events. Comments and other fields are ignored."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the unfinished line: joined when it ends, not with every read
        self._part_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_error = False
        self._is_error_behind: bool | None = None
        """Whether the name behind the data of an event is `error`. None: there is none."""
        self._plain: list[bytes] | None = []  # the lines of no event, until the first event comes
        self._is_first = True
        self.has_unreadable = False
        """Whether the data of an event was no JSON, as its reader has found."""
        self._ended_in_return = False

    @property
    def plain_body(self) -> bytes:
        """The body, without comments and fields, if it had no event; else empty."""
        return b"\n".join(self._plain or ())

    def feed(self, received: bytes) -> list[Data]:
        """The data of the events that are complete now. EngineFault: an event has more than ENGINE_TEXT_BYTES_MAX."""
        if self._ended_in_return:  # a line end of two bytes, in two reads
            received = received.removeprefix(b"\n")
        self._ended_in_return = received.endswith(b"\r")
        events: list[Data] = []
        for line in received.splitlines(keepends=True):
            if not line.endswith(_LINE_ENDS):
                self._parts.append(line)
                self._part_bytes += len(line)
            else:
                self._take_line(self._whole(line.rstrip(b"\r\n")), events)
        if events:
            self._plain = None
        if self._part_bytes + self._data_bytes > ENGINE_TEXT_BYTES_MAX:
            raise EngineFault("The engine sent an event that is too long.")
        return events

    def finish(self) -> list[Data]:
        """The data of the last event, if the stream ended without the blank line behind it; or the body, if it is a
        JSON object in place of a stream."""
        events: list[Data] = []
        if self._parts:
            self._take_line(self._whole(b""), events)
        self._end_event(events)
        if events:
            self._plain = None
        return events or ([self.plain_body] if self.plain_body.startswith(b"{") else [])

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

    def _take_line(self, line: bytes, events: list[Data]) -> None:
        if not line:
            self._end_event(events)
        elif line.startswith(b"data:"):
            data = line[5:].removeprefix(b" ")
            if data.startswith(b"{") or data == DONE:
                self._end_whole_event(events)
            self._add(data)
        elif line.startswith(b"event:"):
            is_error = line[6:].strip() == b"error"
            if self._data:
                self._is_error_behind = is_error
            else:
                self._is_error = is_error
        elif line.startswith(b"error:"):  # llama.cpp before 2025, in place of `data:`
            self._end_whole_event(events)
            self._is_error = True
            self._add(line[6:].removeprefix(b" "))
        elif self._plain is not None and not line.startswith(_IGNORED):
            self._plain.append(line)
            self._data_bytes += len(line)

    def _add(self, data: bytes) -> None:
        self._data.append(data)
        self._data_bytes += len(data)

    def _end_whole_event(self, events: list[Data]) -> None:
        """Ends an event whose server left out the blank line behind it. A name behind its data is that of the next
        event then."""
        if self._data and self._data[-1].endswith(b"}"):
            name, self._is_error_behind = self._is_error_behind, None
            self._end_event(events)
            self._is_error = name is True

    def _end_event(self, events: list[Data]) -> None:
        if self._data:
            data = b"\n".join(self._data) if len(self._data) > 1 else self._data[0]
            is_error = self._is_error if self._is_error_behind is None else self._is_error_behind
            events.append(ErrorData(data) if is_error else data)
            self._data.clear()
            self._data_bytes = 0
        self._is_error, self._is_error_behind = False, None
