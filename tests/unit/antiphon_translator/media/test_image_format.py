from __future__ import annotations

import struct

import pytest

from antiphon_translator.media import image_format
from antiphon_translator.media.image_format import EXTENSIONS_MAX, STEPS_MAX, Header, UnknownFormat, Unreadable
from tests.support.images import GIF, JPEG, PNG, WEBP_EXTENDED, WEBP_LOSSLESS, WEBP_LOSSY, png

REAL = [
    (PNG, "png"),
    (JPEG, "jpeg"),
    (GIF, "gif"),
    (WEBP_LOSSY, "webp"),
    (WEBP_LOSSLESS, "webp"),
    (WEBP_EXTENDED, "webp"),
]
START_OF_FRAME = b"\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 5, 7)
GIF_HEADER = b"GIF89a" + struct.pack("<HH", 4, 4)


@pytest.mark.parametrize(("image", "kind"), REAL)
def test_images_of_real_encoders_are_read(image: bytes, kind: str) -> None:
    assert image_format.read(image) == Header(kind, 3, 2)
    assert image_format.media_type(image) == f"image/{kind}"


@pytest.mark.parametrize(("image", "kind"), REAL)
def test_truncated_image_is_rejected_or_read_with_its_true_size(image: bytes, kind: str) -> None:
    """A cut in front of the size is an error. A cut behind the size is not detected."""
    for length in range(len(image)):
        try:
            assert image_format.read(image[:length]) == Header(kind, 3, 2)
        except (Unreadable, UnknownFormat):
            assert length < len(image) - 4


@pytest.mark.parametrize(
    "content", [b"", b"%PDF-1.7", b"RIFF____WAVE", b"BM", b"<svg/>", b"\x89PNG", b"GIF", b"\xff\xd8"]
)
def test_unknown_image_format_is_rejected(content: bytes) -> None:
    with pytest.raises(UnknownFormat):
        image_format.read(content)
    with pytest.raises(UnknownFormat):
        image_format.media_type(content)


@pytest.mark.parametrize(
    ("image", "size"),
    [
        (png(40_000, 60_000), (40_000, 60_000)),
        (b"\xff\xd8" + b"\xff" * 9 + START_OF_FRAME[1:], (7, 5)),  # bytes that fill the space
        (b"\xff\xd8\xff\xd0\xff\x01" + START_OF_FRAME, (7, 5)),  # markers without a segment
        (b"\xff\xd8\xff\xe1\x00\x04\xff\xc0" + START_OF_FRAME, (7, 5)),  # a segment that holds a marker
        (GIF_HEADER + b"\0\0\0,\2\0\1\0\7\0\3\0\0", (9, 4)),  # a frame beyond its screen
        (GIF_HEADER + b"\x80\0\0" + b"!" * 6 + b"!\xf9\1x\0" + b"!\xfe\2ab\1c\0,\0\0\0\0\4\0\4\0\0", (4, 4)),
    ],
)
def test_size_is_found_behind_other_segments(image: bytes, size: tuple[int, int]) -> None:
    header = image_format.read(image)
    assert (header.width, header.height) == size


@pytest.mark.parametrize(
    "image",
    [
        png(0, 5),
        PNG.replace(b"IHDR", b"IDAT"),
        b"\xff\xd8" + START_OF_FRAME.replace(b"\x00\x05", b"\x00\x00"),  # the height comes later, behind the image
        b"\xff\xd8\xff\xe0\x00\x01" + START_OF_FRAME,
        b"\xff\xd8\xff\xe0\x00\x03" + START_OF_FRAME,
        b"\xff\xd8\xff\xda\x00\x02" + START_OF_FRAME,
        b"\xff\xd8" + b"\xff\xe0\x00\x02" * STEPS_MAX + START_OF_FRAME,
        GIF_HEADER + b"\0\0\0;",
        GIF_HEADER + b"\0\0\0" + b"!\xfe\0" * EXTENSIONS_MAX + b",\0\0\0\0\4\0\4\0\0",
        GIF_HEADER + b"\0\0\0!\xfe" + b"\1x" * STEPS_MAX + b"\0,\0\0\0\0\4\0\4\0\0",
        WEBP_LOSSY.replace(b"\x9d\x01\x2a", b"\x9d\x01\x2b"),
        WEBP_LOSSLESS.replace(b"\x2f", b"\x2e"),
        WEBP_LOSSY.replace(b"VP8 ", b"VP9 "),
    ],
)
def test_malformed_image_is_unreadable(image: bytes) -> None:
    with pytest.raises(Unreadable):
        image_format.read(image)
