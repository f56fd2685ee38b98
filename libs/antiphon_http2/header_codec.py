"""HPACK (RFC 7541): encoding and decoding of the header blocks of one connection, with a cache.

Many calls of a connection have the same headers, and so do the answers. From the third time on such a block has only
indexes into the dynamic table and does not change it: the same bytes mean the same headers until another block changes
the table. The headers of such blocks are cached, because hpack takes 30 us to decode the headers of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hpack import Decoder, HPACKError, OversizedHeaderListError

from antiphon_http2.frames import FRAME_HEADER_BYTES, ConnectionFault
from antiphon_http2.header_encoder import HeaderEncoder
from antiphon_http2.statuses import ErrorCode

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
Headers = Sequence[tuple[bytes, bytes]]

_TABLE_BYTES_MAX = 4_096  # HPACK's default, which is enough for the few repeated headers of calls
_KEPT_BLOCKS_MAX = 64
_INDEX = 0x80  # the bit of an indexed field (RFC 7541, section 6.1)
_UPDATE, _UPDATE_MASK, _LONG_UPDATE = 0x20, 0xE0, 0x3F  # a change of the table's size (RFC 7541, section 6.3)
_SIZE_UPDATES_MAX = 2  # RFC 7541, section 4.2: the smallest size since the last block, and the last
_LONG_INDEX = 0xFF  # an index that continues in further bytes


class HeaderBlock:
    """An incomplete header block, from one HEADERS frame and any number of CONTINUATION frames."""

    def __init__(self, stream_id: int, *, ends_stream: bool, bytes_max: int) -> None:
        self.stream_id = stream_id
        self.ends_stream = ends_stream
        self.content = bytearray()
        self._bytes_max = bytes_max
        self._cost_bytes = 0

    def add(self, piece: bytes) -> None:
        """Adds the content of a frame. ConnectionFault: the block is too large. Empty frames count as well, because a
        peer could send any number of them."""
        self._cost_bytes += FRAME_HEADER_BYTES + len(piece)
        if self._cost_bytes > self._bytes_max:
            text = f"A header block has more than {self._bytes_max} bytes."
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, text)
        self.content += piece


class HeaderCodec:
    """The two compression contexts of a connection. All received blocks must be decoded, in order, even unneeded
    ones."""

    def __init__(self, list_bytes_max: int) -> None:
        """`list_bytes_max`: of the headers of one block, as they are counted while they are decoded: 32 bytes for each
        field, besides its name and value (RFC 7541, section 4.1)."""
        self._encoder = HeaderEncoder(_TABLE_BYTES_MAX)
        self._decoder = Decoder(max_header_list_size=list_bytes_max)
        self._table_bytes = _TABLE_BYTES_MAX
        self._table_bytes_least = _TABLE_BYTES_MAX
        self._encoded: dict[tuple[tuple[str, str], ...], bytes] = {}
        self._decoded: dict[bytes, Headers] = {}

    def limit_table(self, table_bytes: int) -> None:
        """Sets the peer's limit for the encoder's table, which applies from the next block on. It is not passed to the
        encoder before, which keeps a list of all changes until the next block: a peer that only sends settings could
        make that list grow without limit."""
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
        # RFC 7541, section 4.2: both the smallest size since the last block and the last size must be signalled.
        for table_bytes in (self._table_bytes_least, self._table_bytes):
            if table_bytes != self._encoder.table_bytes:
                self._encoder.resize(table_bytes)
        self._table_bytes_least = self._table_bytes
        return self._encoder.encode(headers)

    def decode(self, block: bytes | bytearray) -> Headers:
        """Decodes a block. ConnectionFault: it is malformed or too large. Later blocks cannot be decoded then."""
        key = bytes(block)
        headers = self._decoded.get(key)
        if headers is None:
            headers = self._decode(key)
            _keep(self._decoded, key, headers, is_fixed=_is_fixed(key))
        return headers

    def _decode(self, block: bytes) -> Headers:
        _check_size_updates(block)
        try:
            return [(bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)]
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, str(error)) from error
        except HPACKError as error:
            # The text of hpack may have the address of an object in memory.
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "A header block is malformed.") from error


def _check_size_updates(block: bytes) -> None:
    """ConnectionFault: more changes of the table's size precede the fields than an encoder ever needs. A block of
    16 KiB of nothing else takes 25 ms, and counts as no field."""
    at = 0
    for _ in range(_SIZE_UPDATES_MAX + 1):
        if at >= len(block) or block[at] & _UPDATE_MASK != _UPDATE:
            return
        if block[at] & _LONG_UPDATE == _LONG_UPDATE:  # the size continues in further bytes
            at += 1
            while at < len(block) and block[at] & _INDEX:
                at += 1
        at += 1
    raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "A header block changes the size of the table too often.")


def _is_fixed(block: bytes) -> bool:
    """Whether a block has only indexes of one byte, and so does not change the table."""
    return all(_INDEX <= byte < _LONG_INDEX for byte in block)


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value, *, is_fixed: bool) -> None:
    """Caches the value of a fixed block. Any other block clears the cache, because it may have changed the table."""
    if not is_fixed or len(kept) == _KEPT_BLOCKS_MAX:
        kept.clear()
    if is_fixed:
        kept[key] = value
