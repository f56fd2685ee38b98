"""Encodes images as text, in base64 or as data: URLs, for engines that take them so."""

from __future__ import annotations

from base64 import b64encode

from antiphon_core.errors import EngineFault
from antiphon_translator.media import image_format


def base64(image: bytes) -> str:
    return b64encode(image).decode("ascii")


def data_url(image: bytes) -> str:
    """The image as a data: URL. EngineFault: its format is unknown."""
    try:
        media_type = image_format.media_type(image)
    except image_format.UnknownFormat as error:
        raise EngineFault("The image is neither PNG nor JPEG, GIF or WebP.") from error
    return f"data:{media_type};base64,{base64(image)}"
