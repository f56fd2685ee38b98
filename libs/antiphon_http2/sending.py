"""Sending of bodies under the peer's flow control.

A body is the request of a call, or its answers one by one. Bodies are sent round robin, one frame each, so that a
prompt with images does not delay a short one (head-of-line blocking). A body whose window is used up is skipped until
the peer gives it credit. Messages of one body that wait together leave in one frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from antiphon_http2.frames import (
    FRAME_BYTES_MAX,
    WINDOW_BYTES_DEFAULT,
    WINDOW_BYTES_MAX,
    ConnectionFault,
    data_frame_header,
)
from antiphon_http2.statuses import ErrorCode


class _Body:
    __slots__ = ("has_turn", "is_ended", "pieces", "rest", "stream_id", "trailers", "waiting_bytes", "window_bytes")

    def __init__(self, stream_id: int, window_bytes: int) -> None:
        self.stream_id = stream_id
        self.window_bytes = window_bytes
        self.rest = memoryview(b"")
        self.pieces: list[bytes] = []  # behind `rest`
        self.waiting_bytes = 0  # in both
        self.is_ended = False
        self.trailers: Callable[[], list[bytes]] | None = None
        self.has_turn = False

    def next_bytes(self) -> memoryview:
        if not self.rest:
            self.rest = memoryview(self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces))
            self.pieces.clear()
        return self.rest


class Sender:
    """All bodies of one connection. Windows and settings are those of the peer."""

    def __init__(self, on_empty: Callable[[int], None] | None = None) -> None:
        """`on_empty` is called with the stream of a body that has not ended, when all of it so far is sent."""
        self.frame_bytes_max = FRAME_BYTES_MAX
        self._on_empty = on_empty
        self._initial_window_bytes = WINDOW_BYTES_DEFAULT
        self._window_bytes = WINDOW_BYTES_DEFAULT
        self._bodies: dict[int, _Body] = {}
        self._turns: deque[_Body] = deque()

    @property
    def is_ready(self) -> bool:
        """Whether `frames` yields something."""
        return bool(self._turns) and self._window_bytes > 0

    def add(self, stream_id: int, data: bytes) -> None:
        """Adds a whole body of at least one byte. Its last byte ends the stream."""
        self.open(stream_id)
        self.append(stream_id, data)
        self._bodies[stream_id].is_ended = True

    def open(self, stream_id: int) -> None:
        """Adds an empty body, which `append` and `end` continue."""
        self._bodies[stream_id] = _Body(stream_id, self._initial_window_bytes)

    def append(self, stream_id: int, data: bytes) -> None:
        """Adds at least one byte to a body that has not ended."""
        body = self._bodies[stream_id]
        body.pieces.append(data)
        body.waiting_bytes += len(data)
        self._give_turn(body)

    def end(self, stream_id: int, trailers: Callable[[], list[bytes]]) -> list[bytes]:
        """Ends a body with trailers. `trailers` makes their frames when all data is sent, because the order of header
        blocks is that of their encoding. Returns the frames if that is now."""
        body = self._bodies[stream_id]
        if not body.waiting_bytes:
            del self._bodies[stream_id]
            return trailers()
        body.is_ended, body.trailers = True, trailers
        return []

    def waiting_bytes(self, stream_id: int) -> int:
        """The bytes of a body that are not sent; 0 if it is no longer known."""
        body = self._bodies.get(stream_id)
        return body.waiting_bytes if body is not None else 0

    def drop(self, stream_id: int) -> bool:
        """Drops the rest of a body. Returns whether there was one."""
        body = self._bodies.pop(stream_id, None)
        if body is not None and body.has_turn:
            self._turns.remove(body)
        return body is not None

    def frames(self, bytes_max: int) -> list[bytes | memoryview]:
        """The frames that may be sent now, up to about `bytes_max`."""
        out: list[bytes | memoryview] = []
        while self._turns and self._window_bytes > 0 and bytes_max > 0:
            body = self._turns.popleft()
            body.has_turn = False
            rest = body.next_bytes()
            size = min(len(rest), self.frame_bytes_max, self._window_bytes, body.window_bytes)
            body.waiting_bytes -= size
            is_last = body.is_ended and not body.waiting_bytes
            out.append(data_frame_header(body.stream_id, size, is_last=is_last and body.trailers is None))
            out.append(rest[:size])
            bytes_max -= size
            self._window_bytes -= size
            body.window_bytes -= size
            body.rest = rest[size:]
            if body.waiting_bytes:
                self._give_turn(body)
            else:
                out += self._finish_body(body)
        return out

    def _finish_body(self, body: _Body) -> list[bytes]:
        """Handles a body without waiting bytes, and returns the frames of its trailers."""
        if not body.is_ended:
            if self._on_empty is not None:
                self._on_empty(body.stream_id)
            return []
        del self._bodies[body.stream_id]
        return body.trailers() if body.trailers is not None else []

    def credit_connection(self, increment: int) -> None:
        self._window_bytes = _grow_window(self._window_bytes, increment)

    def credit(self, stream_id: int, increment: int) -> None:
        """Enlarges the window of a body. Ignored if the body was sent completely."""
        if (body := self._bodies.get(stream_id)) is not None:
            body.window_bytes = _grow_window(body.window_bytes, increment)
            self._give_turn(body)

    def set_initial_window(self, window_bytes: int) -> int:
        """Sets the initial window. The windows of open streams change by the difference, even below zero (RFC 9113,
        section 6.9.2). Returns their number."""
        change, self._initial_window_bytes = window_bytes - self._initial_window_bytes, window_bytes
        if not change:
            return 0
        for body in self._bodies.values():
            body.window_bytes = _grow_window(body.window_bytes, change)
            if body.window_bytes <= 0 and body.has_turn:
                self._turns.remove(body)
                body.has_turn = False
            self._give_turn(body)
        return len(self._bodies)

    def _give_turn(self, body: _Body) -> None:
        if body.waiting_bytes and body.window_bytes > 0 and not body.has_turn:
            body.has_turn = True
            self._turns.append(body)


def _grow_window(window_bytes: int, increment: int) -> int:
    if window_bytes + increment > WINDOW_BYTES_MAX:
        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "A window grew beyond its limit.")
    return window_bytes + increment
