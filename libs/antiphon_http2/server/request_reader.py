"""Reads the messages of a call when they are asked for.

Until then they are bytes, no more than the stream's window: a client could send 13,000 messages in it. A message is
announced by the length before it, so that room for it can be found before it is accepted.
"""

from __future__ import annotations

from antiphon_http2.errors import GrpcError
from antiphon_http2.messages import PREFIX, PREFIX_BYTES
from antiphon_http2.statuses import RESOURCE_EXHAUSTED, UNIMPLEMENTED


class RequestReader:
    """The bytes of one call's requests, which are not taken yet."""

    __slots__ = ("_bytes_max", "_part")

    def __init__(self, bytes_max: int) -> None:
        self._part = bytearray()
        self._bytes_max = bytes_max

    def __len__(self) -> int:
        return len(self._part)

    def feed(self, data: bytes, start: int, stop: int) -> None:
        self._part += data[start:stop]

    def size(self) -> int | None:
        """The length of the next message; None if it has not arrived. GrpcError: it is too large, or compressed."""
        if len(self._part) < PREFIX_BYTES:
            return None
        length: int
        is_compressed, length = PREFIX.unpack_from(self._part)
        if is_compressed:
            raise GrpcError(UNIMPLEMENTED, "The message is compressed; the server accepts 'identity' only.")
        if length > self._bytes_max:
            raise GrpcError(RESOURCE_EXHAUSTED, f"A message has {length} bytes; the limit is {self._bytes_max}.")
        return length

    @property
    def missing_bytes(self) -> int:
        """The bytes until the next message is complete, or until its length is known. Raises what `size` raises."""
        size = self.size()
        return PREFIX_BYTES + (size or 0) - len(self._part)

    def take(self) -> bytes | None:
        """Removes and returns the next message; None if it is not complete. Raises what `size` raises."""
        size = self.size()
        if size is None or len(self._part) < PREFIX_BYTES + size:
            return None
        with memoryview(self._part) as part:
            message = bytes(part[PREFIX_BYTES : PREFIX_BYTES + size])
        del self._part[: PREFIX_BYTES + size]
        return message
