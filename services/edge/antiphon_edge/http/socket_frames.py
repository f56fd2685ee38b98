"""Checks the frames of a WebSocket on their way to aiohttp's reader, which sets no limit on their number.

- Each frame of a client is masked (RFC 6455, section 5.1). Without the mask, a web page could write bytes of its choice
  to a socket, and a proxy on the way could take them for an HTTP request. aiohttp accepts frames with and without a
  mask.
- A message has at most FRAGMENTS_MAX fragments, and pings and pongs have a rate. Each frame costs the event loop the
  same, whether it carries one byte or a megabyte: 40 KB of empty frames blocked it for a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from antiphon_edge.http.allowance import Allowance, Rate

FRAGMENTS_MAX = 4_096
"""Fragments of one message. A message of the largest size may come in pieces of 2.5 KiB."""
CONTROL_RATE = Rate(burst=128, per_s=16)
"""Pings and pongs of one connection. Clients send one in some seconds, and several at once after a sleep."""


@dataclass(frozen=True, slots=True)
class Violation:
    """The close code for a client that breaks a rule, and the reason (at most 123 bytes: RFC 6455, section 5.5)."""

    code: int
    reason: str


_PROTOCOL_ERROR, _POLICY, _TRY_AGAIN_LATER = 1002, 1008, 1013
UNMASKED = Violation(_PROTOCOL_ERROR, "A client masks its frames (RFC 6455, section 5.1).")
NO_ROOM = Violation(_TRY_AGAIN_LATER, "Too many bytes of messages are being received; connect again later.")
TOO_MANY_FRAGMENTS = Violation(_POLICY, f"A message has more than {FRAGMENTS_MAX} fragments: send larger ones.")
TOO_MANY_CONTROL_FRAMES = Violation(
    _POLICY, f"More pings and pongs were sent than {CONTROL_RATE.burst}, and {CONTROL_RATE.per_s:g} a second."
)

_IS_MASKED, _LENGTH = 0x80, 0x7F
_IS_FINAL, _IS_CONTROL = 0x80, 0x08
_LENGTH_BYTES = {126: 2, 127: 8}
_MASK_BYTES = 4


class Reader(Protocol):
    """The reader that gets the frames: aiohttp's WebSocketReader."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]: ...

    def feed_eof(self) -> None: ...


class FrameListener(Protocol):
    """Counts the bytes of a message while they come, and ends the connection after a violation."""

    def grow(self, size: int) -> bool:
        """Adds bytes to the message. Returns whether there is room for them; if not, nothing more is read."""
        ...

    def end(self) -> None: ...

    def fail(self, violation: Violation) -> None: ...


class CheckedFrames:
    """Passes frames on to the reader, the head of each as soon as the head is complete, up to the first violation."""

    def __init__(self, reader: Reader, now_s: Callable[[], float]) -> None:
        """`now_s` is a monotonic clock."""
        self.is_over = False
        """Whether what comes from now on is dropped: the client broke a rule, or the connection is closing."""
        self.violation: Violation | None = None
        self._listener: FrameListener | None = None
        self._reader = reader
        self._control = Allowance(CONTROL_RATE, now_s)
        self._is_control = False
        self._is_last = True  # of its message
        self._fragments = 0  # of the current message
        self._head = b""  # the beginning of one
        self._payload_bytes = 0  # of the current frame, still to come

    @property
    def payload_bytes(self) -> int:
        """How many more bytes of the current frame are payload."""
        return self._payload_bytes

    def watch(self, listener: FrameListener) -> None:
        """Reports to a listener from now on, and a violation that was found before."""
        self._listener = listener
        self._report()

    def drop(self) -> None:
        """Drops what comes from now on, and the bytes of an incomplete message."""
        self.is_over = True
        self._head = b""
        if self._listener is not None:
            self._listener.end()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Passes bytes on. Returns the reader's own answer: whether it reads no more, and the bytes that it left."""
        if self.is_over:
            return True, b""
        answer = self._reader.feed_data(self._check_frames(data))
        self._report()
        return answer

    def feed_eof(self) -> None:
        self._reader.feed_eof()

    def _report(self) -> None:
        if self.violation is None:
            return
        self.is_over = True
        if self._listener is not None:
            self._listener.fail(self.violation)

    def _check_frames(self, data: bytes) -> bytes:
        """The bytes to pass on, up to the first violation."""
        data = self._head + data
        at = self._take_payload(len(data))
        while self.violation is None and len(data) - at >= 2:
            end = at + _head_bytes(data[at + 1])
            if not data[at + 1] & _IS_MASKED:
                self.violation = UNMASKED
            elif end > len(data):
                break
            elif self._begin(data[at:end]):
                at = end + self._take_payload(len(data) - end)
        self._head = data[at:]
        return data[:at]

    def _begin(self, head: bytes) -> bool:
        """Begins a frame. Returns False if it is one too many."""
        self._is_last, self._is_control = bool(head[0] & _IS_FINAL), bool(head[0] & _IS_CONTROL)
        self._payload_bytes = _payload_bytes(head)
        if self._is_control:
            self.violation = None if self._control.take() else TOO_MANY_CONTROL_FRAMES
        else:
            self._fragments += 1
            self.violation = None if self._fragments <= FRAGMENTS_MAX else TOO_MANY_FRAGMENTS
            self._note_end()
        return self.violation is None

    def _take_payload(self, available: int) -> int:
        """Takes what there is of the current frame's payload. Returns its size, or 0 if there is no room for it."""
        size = min(self._payload_bytes, available)
        if size and not self._is_control and self._listener is not None and not self._listener.grow(size):
            self.violation = NO_ROOM
            return 0
        self._payload_bytes -= size
        if size:
            self._note_end()
        return size

    def _note_end(self) -> None:
        """Ends the message if its last frame is complete."""
        if self._is_control or not self._is_last or self._payload_bytes:
            return
        self._fragments = 0
        if self._listener is not None:
            self._listener.end()


def _head_bytes(second: int) -> int:
    """The size of the head with this second byte."""
    return 2 + _LENGTH_BYTES.get(second & _LENGTH, 0) + _MASK_BYTES


def _payload_bytes(head: bytes) -> int:
    short = head[1] & _LENGTH
    return int.from_bytes(head[2:-_MASK_BYTES]) if short in _LENGTH_BYTES else short
