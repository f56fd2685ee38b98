"""Clients mask the frames that they send over a WebSocket, and the server closes when one does not (RFC 6455, 5.1): a
page must not be able to write bytes of its choice to a socket, which something on the way could take for HTTP.

aiohttp reads frames with and without a mask. Here they are followed on their way to its reader; in place of the first
one without a mask it gets one that it refuses with the close code that is due, 1002.
"""

from __future__ import annotations

from typing import Protocol

_IS_MASKED, _LENGTH = 0x80, 0x7F
_IS_FINAL, _IS_CONTROL = 0x80, 0x08
_LENGTH_BYTES = {126: 2, 127: 8}
_MASK_BYTES = 4
_RESERVED_BITS = b"\x70\x00"


class Reader(Protocol):
    """The reader of frames behind this one: aiohttp's WebSocketReader."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]: ...

    def feed_eof(self) -> None: ...


class MessageListener(Protocol):
    """Is told how a message grows, and when it is complete."""

    def grow(self, size: int) -> bool:
        """Whether there is room for so many more bytes. Where there is not, nothing is read any more."""
        ...

    def end(self) -> None: ...


class MaskedFrames:
    """Hands on what comes, the head of a frame as soon as it is whole."""

    def __init__(self, reader: Reader) -> None:
        self.listener: MessageListener | None = None
        self._reader = reader
        self._is_refused = False
        self._is_control = False
        self._is_last = True  # of its message
        self._head = bytearray()
        self._payload_bytes = 0  # of the current frame, still to come

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Whether nothing more is read, as the reader has it."""
        if self._is_refused:
            return True, b""
        return self._reader.feed_data(self._followed(data))

    def feed_eof(self) -> None:
        self._reader.feed_eof()

    def _followed(self, data: bytes) -> bytes:
        followed = bytearray()
        at = 0
        while at < len(data):
            if self._payload_bytes:
                payload = data[at : at + self._payload_bytes]
                self._payload_bytes -= len(payload)
                at += len(payload)
                if not self._count(len(payload)):
                    break
                followed += payload
                continue
            self._head.append(data[at])
            at += 1
            if len(self._head) >= 2 and not self._head[1] & _IS_MASKED:
                return bytes(followed) + _RESERVED_BITS
            if len(self._head) >= 2 and len(self._head) == _head_bytes(self._head):
                self._payload_bytes = _payload_bytes(self._head)
                self._is_last, self._is_control = bool(self._head[0] & _IS_FINAL), bool(self._head[0] & _IS_CONTROL)
                followed += self._head
                self._head.clear()
                self._count(0)
        return bytes(followed)

    def _count(self, size: int) -> bool:
        """Tells of bytes of the current frame, and of the end of its message. Whether there is room for them."""
        if self.listener is None or self._is_control:
            return True
        if size and not self.listener.grow(size):
            self._is_refused = True
            return False
        if self._is_last and not self._payload_bytes:
            self.listener.end()
        return True


def _head_bytes(head: bytearray) -> int:
    return 2 + _LENGTH_BYTES.get(head[1] & _LENGTH, 0) + _MASK_BYTES


def _payload_bytes(head: bytearray) -> int:
    short = head[1] & _LENGTH
    return int.from_bytes(head[2:-_MASK_BYTES]) if short in _LENGTH_BYTES else short
