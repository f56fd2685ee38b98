"""Items as they lie in a row: both arrays' elements back to back without brackets, as history wants them.

A history of hundreds of responses is then one join of what the rows hold. `input_bytes` says where the input ends:

    input [A,B], output [C]  ->  A,B,C with the input's length, 3
    input [],    output [C]  ->  C     with 0

The arrays are tight: the service takes white space off their ends (`rules.tight`).
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32


def pack(input_items: bytes, output_items: bytes) -> tuple[bytes, int]:
    """The elements of two tight JSON arrays, and how many bytes of that are the first's."""
    first, second = input_items[1:-1], output_items[1:-1]
    return first + (b"," if first and second else b"") + second, len(first)


def unpack(items: bytes, input_bytes: int) -> tuple[bytes, bytes]:
    """The two arrays again."""
    has_comma = 0 < input_bytes < len(items)
    # formatting copies once: b"[" + items + b"]" would copy twice
    return b"[%b]" % items[:input_bytes], b"[%b]" % items[input_bytes + has_comma :]


def join(packed: Sequence[bytes]) -> bytes:
    """One JSON array of all elements. A large history is copied once, which is most of what it costs."""
    parts = [part for part in packed if part]
    if not parts:
        return b"[]"
    parts[0] = b"[" + parts[0]
    parts[-1] += b"]"
    return b",".join(parts)


def checksum(response_id: str, input_bytes: int, items: bytes) -> int:
    """CRC-32 of packed items. It begins with the id, so that another response's bytes are noticed as well."""
    return crc32(items, crc32(response_id.encode(), input_bytes))


def body_checksum(items_checksum: int, body: bytes) -> int:
    """CRC-32 of a body, going on from that of its items: one comparison covers both."""
    return crc32(body, items_checksum)
