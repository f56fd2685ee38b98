"""Images as engines take them: text. What they are is told by their first bytes."""

from __future__ import annotations

from base64 import b64encode

from antiphon_core.errors import EngineFault

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def base64(image: bytes) -> str:
    return b64encode(image).decode("ascii")


def data_url(image: bytes) -> str:
    """A data: URL. EngineFault: the image is of no kind that engines know."""
    for magic, media_type in _MAGIC:
        if image.startswith(magic):
            return f"data:{media_type};base64,{base64(image)}"
    raise EngineFault("The image is neither PNG nor JPEG, GIF or WebP.")
