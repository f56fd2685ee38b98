"""The headers of zstd frames (RFC 8878, section 3.1.1.1)."""

from __future__ import annotations

_MAGIC = b"\x28\xb5\x2f\xfd"
_WINDOW_BYTES_MIN = 2**10
_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_CONTENT_SIZE_SIZES = (0, 2, 4, 8)


def buffer_bytes(head: bytes) -> int | None:
    """The size of the buffer that a decoder allocates for the frame that begins with `head`: its window, or its whole
    content if that is smaller. None if `head` ends within the header. Other frames, which are skipped or rejected, need
    no buffer."""
    if not head.startswith(_MAGIC):
        return None if _MAGIC.startswith(head) else 0
    if len(head) <= len(_MAGIC):
        return None
    descriptor, rest = head[len(_MAGIC)], head[len(_MAGIC) + 1 :]
    is_single_segment = bool(descriptor >> 5 & 1)
    window_size = 0 if is_single_segment else 1
    content_at = window_size + _DICTIONARY_ID_SIZES[descriptor & 3]
    # A single segment always has its size: the flag 0 then means one byte.
    content_size_size = _CONTENT_SIZE_SIZES[descriptor >> 6] or int(is_single_segment)
    if len(rest) < content_at + content_size_size:
        return None
    sizes = [] if is_single_segment else [_window_bytes(rest[0])]
    if content_size_size:
        sizes.append(_content_bytes(rest[content_at : content_at + content_size_size]))
    return min(sizes)


def _window_bytes(descriptor: int) -> int:
    base = _WINDOW_BYTES_MIN << (descriptor >> 3)
    return base + base // 8 * (descriptor & 7)


def _content_bytes(field: bytes) -> int:
    offset = 256 if len(field) == 2 else 0
    return int.from_bytes(field, "little") + offset
