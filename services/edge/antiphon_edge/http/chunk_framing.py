"""The bound for what a body in chunks has besides its content: sizes, extensions and trailers.

Its content is bounded where it is read (routes/bodies.py). Without this bound, a body of the largest size may come in
ten million chunks of one byte, which take the event loop five seconds, and the extension of a chunk need not end.
"""

from __future__ import annotations

from aiohttp import StreamReader, web

from antiphon_core.limits import CHUNK_FRAMING_BYTES_MAX


class FramingTooLarge(web.RequestPayloadError):
    """The framing of a body in chunks is too large."""


class FramingBound:
    """Counts the framing of one connection's body in chunks; there is only one, the last that the connection reads."""

    def __init__(self) -> None:
        self._body: StreamReader | None = None
        self._counted_bytes = 0  # framing and content

    def begin(self, body: StreamReader) -> None:
        """Begins a body in chunks whose head is complete. What was read with the head is not counted."""
        self._body = body
        self._counted_bytes = body.total_bytes

    def note_received(self, size: int) -> bool:
        """Notes that `size` bytes were read. Returns False, and makes reading the body raise FramingTooLarge, if the
        framing is too large."""
        body = self._body
        if body is None or body.is_eof():
            return True
        self._counted_bytes += size
        if self._counted_bytes - body.total_bytes <= CHUNK_FRAMING_BYTES_MAX:
            return True
        body.set_exception(FramingTooLarge("the framing of the body is too large"))
        return False
