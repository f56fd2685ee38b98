"""One end of an HTTP/2 connection, frame by frame and without a socket."""

from __future__ import annotations

from collections.abc import Sequence

from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS = ((":status", "200"), ("content-type", "application/grpc"))
OK = (("grpc-status", "0"),)

Fields = Sequence[tuple[str, str]]


def message(content: bytes) -> bytes:
    """Returns a gRPC message as the content of DATA frames."""
    return b"\0" + len(content).to_bytes(4, "big") + content


REQUEST = ((":method", "POST"), (":scheme", "http"), (":path", "/service/Method"), (":authority", "host:1"))
GRPC = (("te", "trailers"), ("content-type", "application/grpc"))


class Http2Peer:
    """A peer whose methods return bytes for the other end. `read` takes the bytes of the other end, which begin with
    the preface unless `is_client`."""

    def __init__(self, *, is_client: bool = False) -> None:
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._unread = b""
        self._is_begun = is_client

    def read(self, data: bytes) -> list[Frame]:
        """Returns all frames of the other end so far. Header blocks are decoded: `frame.data` has the bytes of the
        headers."""
        self._unread += data
        if not self._is_begun:
            assert self._unread.startswith(PREFACE)
            self._unread = self._unread[len(PREFACE) :]
            self._is_begun = True
        frames: list[Frame] = []
        while len(self._unread) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(self._unread)[:9])
            if len(self._unread) < 9 + length:
                break
            frame.parse_body(memoryview(self._unread)[9 : 9 + length])
            self._unread = self._unread[9 + length :]
            frames.append(frame)
        return frames

    def decode(self, block: bytes) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._decoder.decode(block)}

    def hello(self, settings: dict[int, int] | None = None) -> bytes:
        """Returns how a client begins."""
        return PREFACE + self.settings(settings)

    def request(self, stream_id: int, *metadata: tuple[str, str], ends: bool = False) -> bytes:
        """Returns the headers of a call."""
        return self.headers(stream_id, [*REQUEST, *GRPC, *metadata], ends=ends)

    def settings(self, settings: dict[int, int] | None = None) -> bytes:
        return SettingsFrame(settings=settings or {}).serialize()

    def headers(self, stream_id: int, fields: Fields = HEADERS, *, ends: bool = False, cut: int | None = None) -> bytes:
        """Returns headers, with `cut` in HEADERS and CONTINUATION frames of so many bytes."""
        block = self._encoder.encode(list(fields))
        pieces = [block[at : at + cut] for at in range(0, len(block), cut)] if cut else [block]
        flags = ["END_STREAM"] if ends else []
        if len(pieces) == 1:
            flags.append("END_HEADERS")
        out = HeadersFrame(stream_id, pieces[0], flags=flags).serialize()
        for number, piece in enumerate(pieces[1:], start=2):
            last = ["END_HEADERS"] if number == len(pieces) else []
            out += ContinuationFrame(stream_id, piece, flags=last).serialize()
        return out

    def trailers(self, stream_id: int, fields: Fields = OK) -> bytes:
        return self.headers(stream_id, fields, ends=True)

    def data(self, stream_id: int, content: bytes, *, ends: bool = False, pad: int | None = None) -> bytes:
        flags = [*(["END_STREAM"] if ends else []), *(["PADDED"] if pad is not None else [])]
        return DataFrame(stream_id, content, pad_length=pad or 0, flags=flags).serialize()

    def messages(self, stream_id: int, *contents: bytes) -> bytes:
        """Returns each message in its own DATA frame."""
        return b"".join(self.data(stream_id, message(content)) for content in contents)

    def ping(self, content: bytes = b"12345678", *, is_answer: bool = False) -> bytes:
        return PingFrame(opaque_data=content, flags=["ACK"] if is_answer else []).serialize()

    def reset(self, stream_id: int, code: int) -> bytes:
        return RstStreamFrame(stream_id, code).serialize()

    def goaway(self, last_id: int, code: int = 0, debug: bytes = b"") -> bytes:
        return GoAwayFrame(last_stream_id=last_id, error_code=code, additional_data=debug).serialize()

    def credit(self, stream_id: int, increment: int) -> bytes:
        return WindowUpdateFrame(stream_id, increment).serialize()
