"""Header blocks, compressed with HPACK (RFC 7541) in both directions of one connection.

The calls of one connection repeat their headers, and answers theirs. From its second time on such a block consists of
indexes into the table only, and leaves the table as it is: its bytes stand for these headers until another block
changes the table. What such blocks stand for is kept, because hpack takes 60 us for the blocks of one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hpack import Decoder, Encoder, HPACKError, OversizedHeaderListError

from antiphon_core.http2.frames import FRAME_HEADER_BYTES, ConnectionFault
from antiphon_core.http2.statuses import ErrorCode
from antiphon_core.limits import HTTP2_HEADERS_BYTES_MAX

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_TABLE_BYTES_MAX = 4_096  # HPACK's default: the few headers of a call that repeat need no more


_KEPT_BLOCKS_MAX = 64
_INDEX = 0x80  # begins a field that is nothing but an index (RFC 7541, section 6.1)
_LONG_INDEX = 0xFF  # the index goes on in further bytes


class HeaderBlock:
    """A header block that is still coming, in one HEADERS frame and any number of CONTINUATION frames."""

    def __init__(self, stream_id: int, *, ends_stream: bool) -> None:
        self.stream_id = stream_id
        self.ends_stream = ends_stream
        self.content = bytearray()
        self._cost_bytes = 0

    def add(self, piece: bytes) -> None:
        """ConnectionFault: the block is too large. Empty frames count too: they could come without end."""
        self._cost_bytes += FRAME_HEADER_BYTES + len(piece)
        if self._cost_bytes > HTTP2_HEADERS_BYTES_MAX:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "A header block is too large.")
        self.content += piece


class HeaderCodec:
    """The two compression contexts of a connection. Every block must be decoded, wanted or not, in its order."""

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._decoder = Decoder(max_header_list_size=HTTP2_HEADERS_BYTES_MAX)
        self._table_bytes = _TABLE_BYTES_MAX
        self._table_bytes_least = _TABLE_BYTES_MAX
        self._encoded: dict[tuple[tuple[str, str], ...], bytes] = {}
        self._decoded: dict[bytes, Sequence[tuple[bytes, bytes]]] = {}

    def limit_table(self, table_bytes: int) -> None:
        """The peer's limit for what the encoder remembers. It is applied with the next block: hpack keeps a list of all
        changes until then, which a peer that sends nothing but settings would make grow without end."""
        self._table_bytes = min(table_bytes, _TABLE_BYTES_MAX)
        self._table_bytes_least = min(self._table_bytes_least, self._table_bytes)
        self._encoded.clear()

    def encode(self, headers: Sequence[tuple[str, str]]) -> bytes:
        key = tuple(headers)
        block = self._encoded.get(key)
        if block is None:
            block = self._encode(headers)
            _keep(self._encoded, key, block, is_fixed=_is_fixed(block))
        return block

    def _encode(self, headers: Sequence[tuple[str, str]]) -> bytes:
        # RFC 7541, section 4.2: the smallest size since the last block is said as well as the last.
        for table_bytes in (self._table_bytes_least, self._table_bytes):
            if table_bytes != self._encoder.header_table_size:
                self._encoder.header_table_size = table_bytes
        self._table_bytes_least = self._table_bytes
        # Huffman coding saves a few bytes of a call and costs Python a loop over all of them.
        return self._encoder.encode(headers, huffman=False)

    def decode(self, block: bytes | bytearray) -> Sequence[tuple[bytes, bytes]]:
        """ConnectionFault: the block is malformed, or too large; the context of all later ones is lost with it."""
        key = bytes(block)
        headers = self._decoded.get(key)
        if headers is None:
            headers = self._decode(key)
            _keep(self._decoded, key, headers, is_fixed=_is_fixed(key))
        return headers

    def _decode(self, block: bytes) -> Sequence[tuple[bytes, bytes]]:
        try:
            return [(bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)]
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, str(error)) from error
        except HPACKError as error:
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, str(error)) from error


def _is_fixed(block: bytes) -> bool:
    """Whether a block has nothing but indexes of one byte, and so leaves the table as it is."""
    return all(_INDEX <= byte < _LONG_INDEX for byte in block)


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value, *, is_fixed: bool) -> None:
    """Keeps what a fixed block stands for. Any other block may have changed the table, and with it all that is kept."""
    if not is_fixed or len(kept) == _KEPT_BLOCKS_MAX:
        kept.clear()
    if is_fixed:
        kept[key] = value
