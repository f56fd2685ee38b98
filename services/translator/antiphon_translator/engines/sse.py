"""Reads server-sent events, as far as model servers use them: the data of each event."""

from __future__ import annotations

from antiphon_core.errors import EngineFault
from antiphon_core.limits import ENGINE_TEXT_BYTES_MAX


class EventData:
    """Splits a stream of bytes into the data of its events. Comments and other fields are ignored."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the unfinished line: joined when it ends, not with every read
        self._part_bytes = 0
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that are complete now. EngineFault: an event has more than ENGINE_TEXT_BYTES_MAX."""
        *lines, rest = received.split(b"\n")
        if lines and self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
            self._part_bytes = 0
        if rest:
            self._parts.append(rest)
            self._part_bytes += len(rest)
        events = self._events(lines)
        if self._part_bytes + sum(map(len, self._data)) > ENGINE_TEXT_BYTES_MAX:
            raise EngineFault("The engine sent an event that is too long.")
        return events

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for line in lines:
            text = line.removesuffix(b"\r")
            if text.startswith(b"data:"):
                self._data.append(text[5:].removeprefix(b" "))
            elif not text and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
