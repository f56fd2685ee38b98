"""Images as engines take them: text."""

from __future__ import annotations

from base64 import b64encode

from antiphon_core.errors import EngineFault
from antiphon_translator.media import image_format


def base64(image: bytes) -> str:
    return b64encode(image).decode("ascii")


def data_url(image: bytes) -> str:
    """A data: URL. EngineFault: the image is of no kind that engines know."""
    try:
        media_type = image_format.media_type(image)
    except image_format.UnknownFormat as error:
        raise EngineFault("The image is neither PNG nor JPEG, GIF or WebP.") from error
    return f"data:{media_type};base64,{base64(image)}"
