"""Packed items, the form of a row: the elements of the input and output arrays, joined by commas, without brackets.

The history of a chain is then one join of the packed items of its rows. `input_bytes` is the length of the input:

    input [A,B], output [C]  ->  A,B,C with input_bytes 3
    input [],    output [C]  ->  C     with input_bytes 0

The arrays are tight: the service has removed white space inside their brackets (`rules.contents.tight`).
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32


def pack(input_items: bytes, output_items: bytes) -> tuple[bytes, int]:
    """The elements of two tight JSON arrays, and the number of bytes that are those of the first."""
    first, second = input_items[1:-1], output_items[1:-1]
    return first + (b"," if first and second else b"") + second, len(first)


def unpack(items: bytes, input_bytes: int) -> tuple[bytes, bytes]:
    """The two arrays that `pack` was called with."""
    has_comma = 0 < input_bytes < len(items)
    # formatting copies once: b"[" + items + b"]" would copy twice
    return b"[%b]" % items[:input_bytes], b"[%b]" % items[input_bytes + has_comma :]


def join(packed: Sequence[bytes]) -> bytes:
    """One JSON array of all elements. A large history is copied only once, which is most of the work."""
    parts = [part for part in packed if part]
    if not parts:
        return b"[]"
    parts[0] = b"[" + parts[0]
    parts[-1] += b"]"
    return b",".join(parts)


def checksum(response_id: str, input_bytes: int, items: bytes) -> int:
    """CRC-32 of the response's id and its packed items. With the id, it also detects the bytes of another response."""
    return crc32(items, crc32(response_id.encode(), input_bytes))


def body_checksum(items_checksum: int, body: bytes) -> int:
    """CRC-32 of a body, continued from that of the items, so that one comparison covers both."""
    return crc32(body, items_checksum)
