"""One answer of HTTP/1.1, read as its bytes come (RFC 9112). No I/O."""

from __future__ import annotations

import re

HEAD_BYTES_MAX = 64 * 2**10
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_LINE_END = len(b"\r\n")


class HttpError(Exception):
    """A server cannot be reached, broke its answer off, or sent what is no answer of HTTP/1.1."""


class HttpResponse:
    """`feed` takes what was read and gives what it has of the body."""

    def __init__(self) -> None:
        self.status = 0
        """0 before the head is complete."""
        self.is_complete = False
        self.can_reuse_connection = False
        """Whether the server takes another request behind this one, once the answer is complete."""
        self._rest = b""
        self._left = 0
        """Of the body, or of the chunk that is being read, with the line end behind it."""
        self._is_chunked = False
        self._ends_with_connection = False
        self._in_trailers = False

    def feed(self, data: bytes) -> bytes:
        """HttpError: this is no answer, and nothing more can be read."""
        if not self.status:
            data = self._take_head(self._rest + data)
        if not self.status or not data:
            return b""
        if self._is_chunked:
            return self._take_chunks(self._rest + data)
        return self._take_plain(data)

    def end(self) -> None:
        """The server closed the connection. HttpError: in the middle of its answer."""
        self.is_complete = self.is_complete or self._ends_with_connection
        if not self.is_complete:
            raise HttpError("the server closed the connection")

    def _take_head(self, data: bytes) -> bytes:
        """Returns what stands behind the head."""
        while not self.status:
            head, end, data = data.partition(b"\r\n\r\n")
            if len(head) > HEAD_BYTES_MAX:
                raise HttpError("the head of the answer is too long")
            if not end:
                self._rest = head
                return b""
            self._read_head(head)
        self._rest = b""
        return data

    def _read_head(self, head: bytes) -> None:
        line, *fields = head.split(b"\r\n")
        begun = _STATUS_LINE.fullmatch(line)
        if begun is None:
            raise HttpError("the server does not speak HTTP/1.1")
        status = int(begun[2])
        if status < 200:  # the real answer follows
            return
        self.status = status
        headers = {
            name.lower(): value.strip().lower() for name, _, value in (field.partition(b":") for field in fields)
        }
        is_kept = begun[1] == b"1" and b"close" not in headers.get(b"connection", b"")
        self._frame(headers)
        self.can_reuse_connection = is_kept and not self._ends_with_connection

    def _frame(self, headers: dict[bytes, bytes]) -> None:
        """How the end of the body is found."""
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise HttpError("the server encoded its answer, which it was asked not to do")
        length = headers.get(b"content-length")
        if self.status in (204, 304):
            self.is_complete = True
        elif (coding := headers.get(b"transfer-encoding")) is not None:
            if coding != b"chunked":
                raise HttpError("the answer has an unknown transfer encoding")
            self._is_chunked = True
        elif length is None:
            self._ends_with_connection = True
        elif not length.isdigit():
            raise HttpError("the length of the answer is no number")
        else:
            self._left = int(length)
            self.is_complete = not self._left

    def _take_plain(self, data: bytes) -> bytes:
        if self._ends_with_connection:
            return data
        body = data[: self._left]
        self._left -= len(body)
        self.is_complete = not self._left
        self.can_reuse_connection = self.can_reuse_connection and len(body) == len(data)
        return body

    def _take_chunks(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        at = 0
        while not self.is_complete and at < len(data):
            if self._left:
                end = at + self._left
                pieces.append(self._take_piece(data[at:end]))
            else:
                end = data.find(b"\n", at) + 1
                if not end:
                    break
                self._take_line(data[at:end].rstrip())
            at = end
        self._rest = data[at:]
        if len(self._rest) > HEAD_BYTES_MAX:
            raise HttpError("a line between two chunks of the answer is too long")
        self.can_reuse_connection = self.can_reuse_connection and not (self.is_complete and self._rest)
        return b"".join(pieces)

    def _take_piece(self, piece: bytes) -> bytes:
        """A piece of a chunk, without what it has of the line end behind the chunk."""
        self._left -= len(piece)
        return piece if self._left >= _LINE_END else piece[: max(len(piece) - _LINE_END + self._left, 0)]

    def _take_line(self, line: bytes) -> None:
        """The size of the next chunk, or a trailer."""
        if self._in_trailers:
            self.is_complete = not line
            return
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            raise HttpError("the chunks of the answer cannot be read")
        self._left = int(size[1], 16)
        self._in_trailers = not self._left
        self._left += _LINE_END if self._left else 0


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.lower().partition(b":")
    return name, value.strip()
