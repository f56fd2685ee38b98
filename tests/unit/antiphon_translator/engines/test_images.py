from __future__ import annotations

import pytest

from antiphon_core.errors import EngineFault
from antiphon_translator.engines.images import base64, data_url


@pytest.mark.parametrize(
    ("image", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n..", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF....WEBP", "image/webp"),
    ],
)
def test_media_type_is_detected_from_the_first_bytes(image: bytes, media_type: str) -> None:
    assert data_url(image) == f"data:{media_type};base64,{base64(image)}"


def test_bytes_of_an_unknown_image_format_are_a_fault() -> None:
    with pytest.raises(EngineFault, match="neither PNG"):
        data_url(b"<svg>")
