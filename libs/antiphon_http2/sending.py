"""Sending of request bodies under the peer's flow control.

Bodies are sent round robin, one frame each, so that a prompt with images does not delay a short one (head-of-line
blocking). A body whose window is used up is skipped until the peer gives it credit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from antiphon_http2.frames import (
    FRAME_BYTES_MAX,
    WINDOW_BYTES_DEFAULT,
    WINDOW_BYTES_MAX,
    ConnectionFault,
    data_frame_header,
)
from antiphon_http2.statuses import ErrorCode


class _Body:
    __slots__ = ("has_turn", "rest", "stream_id", "window_bytes")

    def __init__(self, stream_id: int, data: bytes, window_bytes: int) -> None:
        self.stream_id = stream_id
        self.rest = memoryview(data)
        self.window_bytes = window_bytes
        self.has_turn = False


class Sender:
    """All request bodies of one connection. Windows and settings are those of the peer."""

    def __init__(self) -> None:
        self.frame_bytes_max = FRAME_BYTES_MAX
        self._initial_window_bytes = WINDOW_BYTES_DEFAULT
        self._window_bytes = WINDOW_BYTES_DEFAULT
        self._bodies: dict[int, _Body] = {}
        self._turns: deque[_Body] = deque()

    def add(self, stream_id: int, data: bytes) -> None:
        """Adds a body of at least one byte. Its last byte ends the stream."""
        body = self._bodies[stream_id] = _Body(stream_id, data, self._initial_window_bytes)
        self._give_turn(body)

    def drop(self, stream_id: int) -> bool:
        """Drops the rest of a body. Returns whether there was one."""
        body = self._bodies.pop(stream_id, None)
        if body is not None and body.has_turn:
            self._turns.remove(body)
        return body is not None

    def frames(self, bytes_max: int) -> Iterator[bytes | memoryview]:
        """Yields the frames that may be sent now, up to about `bytes_max`."""
        while self._turns and self._window_bytes > 0 and bytes_max > 0:
            body = self._turns.popleft()
            body.has_turn = False
            size = min(len(body.rest), self.frame_bytes_max, self._window_bytes, body.window_bytes)
            is_last = size == len(body.rest)
            yield data_frame_header(body.stream_id, size, is_last=is_last)
            yield body.rest[:size]
            bytes_max -= size
            self._window_bytes -= size
            body.window_bytes -= size
            body.rest = body.rest[size:]
            if is_last:
                del self._bodies[body.stream_id]
            else:
                self._give_turn(body)

    def credit_connection(self, increment: int) -> None:
        self._window_bytes = _grown(self._window_bytes, increment)

    def credit(self, stream_id: int, increment: int) -> None:
        """Enlarges the window of a body. Ignored if the body was sent completely."""
        if (body := self._bodies.get(stream_id)) is not None:
            body.window_bytes = _grown(body.window_bytes, increment)
            self._give_turn(body)

    def set_initial_window(self, window_bytes: int) -> None:
        """Sets the initial window. The windows of open streams change by the difference, even below zero (RFC 9113,
        section 6.9.2)."""
        change, self._initial_window_bytes = window_bytes - self._initial_window_bytes, window_bytes
        for body in self._bodies.values():
            body.window_bytes = _grown(body.window_bytes, change)
            if body.window_bytes <= 0 and body.has_turn:
                self._turns.remove(body)
                body.has_turn = False
            self._give_turn(body)

    def _give_turn(self, body: _Body) -> None:
        if body.window_bytes > 0 and not body.has_turn:
            body.has_turn = True
            self._turns.append(body)


def _grown(window_bytes: int, increment: int) -> int:
    if window_bytes + increment > WINDOW_BYTES_MAX:
        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "A window grew beyond its limit.")
    return window_bytes + increment
