"""Reads the format and the size of an image from its first bytes. Nothing is decoded.

The four formats are those that vision models are served with. Their sizes are at fixed offsets, except in a JPEG, whose
size follows any number of segments, and in a GIF, whose first frame may be larger than its header says. The reader
takes a limited number of steps to the size, and rejects every file that breaks its format, because an attacker may have
crafted it.

No library is used: Pillow is 20 MB of native decoders, none of which would be used, and takes 11 s for a JPEG of 20 MB
that holds nothing but empty segments; imagesize takes 6 s (docs/adr/0024-images.md).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

STEPS_MAX = 10_000
"""Segments of a JPEG, blocks of one extension of a GIF: real ones have a few hundred before the size is known."""
EXTENSIONS_MAX = 64
"""Extensions before the first frame of a GIF: real ones have three or four."""

_PNG = b"\x89PNG\r\n\x1a\n"


class UnknownFormat(Exception):
    """The bytes are no PNG, JPEG, GIF or WebP."""


class Unreadable(Exception):
    """The image is of a known format, but its size cannot be read."""


@dataclass(frozen=True, slots=True)
class Header:
    """Format and size of an image. `kind` is png, jpeg, gif or webp; `width` and `height` are in pixels."""

    kind: str
    width: int
    height: int


def read(image: bytes) -> Header:
    """The header of an image. UnknownFormat, Unreadable."""
    kind, measure = _format_of(image)
    try:
        width, height = measure(image)
    except (struct.error, IndexError) as error:
        raise Unreadable from error
    if not width or not height:
        raise Unreadable
    return Header(kind, width, height)


def media_type(image: bytes) -> str:
    """The media type of an image. UnknownFormat."""
    return f"image/{_format_of(image)[0]}"


def _format_of(image: bytes) -> tuple[str, Callable[[bytes], tuple[int, int]]]:
    if image.startswith(_PNG):
        return "png", _png
    if image.startswith(b"\xff\xd8\xff"):
        return "jpeg", _jpeg
    if image.startswith((b"GIF87a", b"GIF89a")):
        return "gif", _gif
    if image.startswith(b"RIFF") and image[8:12] == b"WEBP":
        return "webp", _webp
    raise UnknownFormat


def _png(image: bytes) -> tuple[int, int]:
    kind, width, height = struct.unpack_from(">4sII", image, 12)
    if kind != b"IHDR":
        raise Unreadable
    return width, height


# ---- JPEG: a chain of segments; the frame header among them holds the size ----

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
"""Markers without a segment behind them."""
_DATA = frozenset({0xD9, 0xDA})
"""End of image, and start of scan: no frame header follows them."""


def _jpeg(image: bytes) -> tuple[int, int]:
    place = 2
    for _ in range(STEPS_MAX):
        if image[place] != 0xFF:
            raise Unreadable
        marker = image[place + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", image, place + 5)
            return width, height
        if marker in _DATA:
            raise Unreadable
        if marker == 0xFF:  # a fill byte
            place += 1
        elif marker in _BARE:
            place += 2
        else:
            (length,) = struct.unpack_from(">H", image, place + 2)
            place += 2 + length  # the length includes its own two bytes; a smaller one leads to no marker
    raise Unreadable


# ---- GIF: a logical screen, extensions, and frames that may be larger than the screen ----

_EXTENSION, _FRAME = 0x21, 0x2C


def _gif(image: bytes) -> tuple[int, int]:
    width, height, flags = struct.unpack_from("<HHB", image, 6)
    place = 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)  # behind the colour table
    for _ in range(EXTENSIONS_MAX):
        if image[place] == _FRAME:
            left, top, across, down = struct.unpack_from("<HHHH", image, place + 1)
            return max(width, left + across), max(height, top + down)
        if image[place] != _EXTENSION:
            raise Unreadable
        place = _behind_blocks(image, place + 2)
    raise Unreadable


def _behind_blocks(image: bytes, place: int) -> int:
    """The offset behind a row of sub-blocks. Each begins with its length, and the last one is empty."""
    for _ in range(STEPS_MAX):
        length = image[place]
        place += 1 + length
        if not length:
            return place
    raise Unreadable


# ---- WebP: three kinds of first chunk ----


def _webp(image: bytes) -> tuple[int, int]:
    match image[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(_cut(image, 24, 3), "little"), 1 + int.from_bytes(_cut(image, 27, 3), "little")
        case b"VP8L" if image[20] == 0x2F:
            (bits,) = struct.unpack_from("<I", image, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 " if _cut(image, 23, 3) == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", image, 26)
            return width & 0x3FFF, height & 0x3FFF
    raise Unreadable


def _cut(image: bytes, start: int, length: int) -> bytes:
    if len(image) < start + length:
        raise Unreadable
    return image[start : start + length]
