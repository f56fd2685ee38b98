"""Reads gRPC messages from DATA payloads. Five bytes precede a message: a compression flag and the message's length.

Message boundaries are independent of frames: a frame may have many messages, or a small part of one.
"""

from __future__ import annotations

from struct import Struct

from antiphon_http2.errors import GrpcError
from antiphon_http2.statuses import INTERNAL, RESOURCE_EXHAUSTED

PREFIX = Struct(">BL")
PREFIX_BYTES = PREFIX.size
_unpack_prefix = PREFIX.unpack_from


class MessageReader:
    """Reads the messages of one stream. Complete messages are appended to `ready`, which the owner empties."""

    __slots__ = ("_bytes_max", "_part", "ready")

    def __init__(self, bytes_max: int) -> None:
        self.ready: list[bytes] = []
        self._part = bytearray()  # the incomplete message at the end, with its prefix
        self._bytes_max = bytes_max

    @property
    def is_between_messages(self) -> bool:
        return not self._part

    def feed(self, data: bytes, start: int, stop: int) -> None:
        """Reads the payload data[start:stop]. GrpcError: a message is too large, or compressed."""
        if self._part:
            start = self._continue_part(data, start, stop)
        ready = self.ready
        while stop - start >= PREFIX_BYTES:
            is_compressed, length = _unpack_prefix(data, start)
            if is_compressed or length > self._bytes_max:
                raise self._rejection(is_compressed, length)
            end = start + PREFIX_BYTES + length
            if end > stop:
                break
            ready.append(data[start + PREFIX_BYTES : end])
            start = end
        if start < stop:
            self._part += data[start:stop]

    def _continue_part(self, data: bytes, start: int, stop: int) -> int:
        """Adds to the message that began in an earlier payload, and returns the offset of the next one."""
        part = self._part
        if len(part) < PREFIX_BYTES:
            taken = min(PREFIX_BYTES - len(part), stop - start)
            part += data[start : start + taken]
            start += taken
            if len(part) < PREFIX_BYTES:
                return stop
        length: int
        is_compressed, length = _unpack_prefix(part)
        if is_compressed or length > self._bytes_max:
            raise self._rejection(is_compressed, length)
        taken = min(PREFIX_BYTES + length - len(part), stop - start)
        part += data[start : start + taken]
        if len(part) == PREFIX_BYTES + length:
            self.ready.append(bytes(memoryview(part)[PREFIX_BYTES:]))
            self._part = bytearray()
        return start + taken

    def _rejection(self, is_compressed: int, length: int) -> GrpcError:
        if is_compressed:
            return GrpcError(INTERNAL, "The server compressed a message, although the client does not accept that.")
        return GrpcError(RESOURCE_EXHAUSTED, f"A message has {length} bytes; the limit is {self._bytes_max}.")


def frame_message(message: bytes) -> bytes:
    """A message with its prefix."""
    return PREFIX.pack(0, len(message)) + message
