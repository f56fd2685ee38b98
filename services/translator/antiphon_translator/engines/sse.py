"""Server-sent events out of bytes, as far as chat completions use them: the data of each event."""

from __future__ import annotations

from antiphon_core.errors import EngineFault

LINE_BYTES_MAX = 16 * 2**20
"""One event is one line; nothing that a model says at once is as long."""


class EventData:
    """Cuts a stream of bytes into the data of its events. Comments and other fields are left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that are complete now. EngineFault: a line has no end."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise EngineFault("The engine sent an event that is too long.")
        events = []
        for line in lines:
            text = line.removesuffix(b"\r")
            if text.startswith(b"data:"):
                self._data.append(text[5:].removeprefix(b" "))
            elif not text and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
