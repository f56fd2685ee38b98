"""Requires clients to mask the frames that they send over a WebSocket (RFC 6455, section 5.1).

Without the mask, a web page could write bytes of its choice to a socket, and a proxy on the way could take them for an
HTTP request. aiohttp accepts frames with and without a mask. So the heads of frames are parsed here, on their way to
aiohttp's reader. In place of the first frame without a mask, the reader is given a head with reserved bits, which it
rejects with the close code of a protocol error, 1002.
"""

from __future__ import annotations

from typing import Protocol

_IS_MASKED, _LENGTH = 0x80, 0x7F
_IS_FINAL, _IS_CONTROL = 0x80, 0x08
_LENGTH_BYTES = {126: 2, 127: 8}
_MASK_BYTES = 4
_RESERVED_BITS = b"\x70\x00"


class Reader(Protocol):
    """The reader that gets the frames: aiohttp's WebSocketReader."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]: ...

    def feed_eof(self) -> None: ...


class MessageListener(Protocol):
    """Counts the bytes of a message while they come."""

    def grow(self, size: int) -> bool:
        """Adds bytes to the message. Returns whether there is room for them; if not, nothing more is read."""
        ...

    def end(self) -> None: ...


class MaskedFrames:
    """Passes frames on to the reader, the head of each as soon as the head is complete."""

    def __init__(self, reader: Reader) -> None:
        self.listener: MessageListener | None = None
        self._reader = reader
        self._is_rejected = False
        self._is_control = False
        self._is_last = True  # of its message
        self._head = bytearray()
        self._payload_bytes = 0  # of the current frame, still to come

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Passes bytes on. Returns the reader's own answer: whether it reads no more, and the bytes that it left."""
        if self._is_rejected:
            return True, b""
        return self._reader.feed_data(self._checked(data))

    def feed_eof(self) -> None:
        self._reader.feed_eof()

    def _checked(self, data: bytes) -> bytes:
        """The bytes to pass on, up to the first frame that is rejected."""
        passed = bytearray()
        at = 0
        while at < len(data):
            if self._payload_bytes:
                payload = data[at : at + self._payload_bytes]
                self._payload_bytes -= len(payload)
                at += len(payload)
                if not self._report(len(payload)):
                    break
                passed += payload
                continue
            self._head.append(data[at])
            at += 1
            if len(self._head) >= 2 and not self._head[1] & _IS_MASKED:
                return bytes(passed) + _RESERVED_BITS
            if len(self._head) >= 2 and len(self._head) == _head_bytes(self._head):
                self._payload_bytes = _payload_bytes(self._head)
                self._is_last, self._is_control = bool(self._head[0] & _IS_FINAL), bool(self._head[0] & _IS_CONTROL)
                passed += self._head
                self._head.clear()
                self._report(0)
        return bytes(passed)

    def _report(self, size: int) -> bool:
        """Reports payload bytes of the current frame, and the end of its message, to the listener. Returns whether
        there is room for them."""
        if self.listener is None or self._is_control:
            return True
        if size and not self.listener.grow(size):
            self._is_rejected = True
            return False
        if self._is_last and not self._payload_bytes:
            self.listener.end()
        return True


def _head_bytes(head: bytearray) -> int:
    return 2 + _LENGTH_BYTES.get(head[1] & _LENGTH, 0) + _MASK_BYTES


def _payload_bytes(head: bytearray) -> int:
    short = head[1] & _LENGTH
    return int.from_bytes(head[2:-_MASK_BYTES]) if short in _LENGTH_BYTES else short
