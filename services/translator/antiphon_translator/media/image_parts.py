"""Reads an `input_image` part: an image, or a placeholder text for a model that sees no images."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Image
from antiphon_translator.media import data_url, image_format
from antiphon_translator.media.downloads import Downloads, Failure, Problem, at
from antiphon_translator.media.part_errors import part_error, text_member, too_large
from antiphon_translator.media.sight import Sight

MEMBER = "image_url"


def read(part: Object, path: str, sight: Sight, downloads: Downloads) -> str | Image:
    """Reads an image part into the image or the text that the model is shown. InvalidRequest: the part cannot be read,
    or the model sees no images."""
    if sight is Sight.REFUSE:
        raise part_error(path, "this model sees no images", "unsupported_value")
    url = text_member(part, MEMBER, path)
    if sight is Sight.PLACEHOLDER and not data_url.is_data(url):
        return "[image, not shown to this model]"
    path = f"{path}.{MEMBER}"
    image = _check_image(_content(url, path, downloads), path, detail=str(part.get("detail") or ""))
    if sight is Sight.PLACEHOLDER:
        return f"[image: {image.width}x{image.height} {image.kind}, not shown to this model]"
    return image


def _content(url: str, path: str, downloads: Downloads) -> bytes:
    if data_url.is_data(url):
        return _content_of_data(url, path)
    found = at(url, downloads)
    if isinstance(found, Failure):
        raise part_error(path, f"the image could not be fetched: {found.why}", found.problem.value)
    return found.content


def _content_of_data(url: str, path: str) -> bytes:
    try:
        return data_url.read(url, bytes_max=limits.IMAGE_BYTES_MAX).content
    except data_url.NotData as error:
        raise part_error(path, f"{error}", "invalid_base64_image") from error
    except data_url.TooMuchData as error:
        raise too_large(path, "an image", limits.IMAGE_BYTES_MAX, Problem.SIZE.value) from error


def _check_image(content: bytes, path: str, *, detail: str) -> Image:
    if not content:
        raise part_error(path, "the image is empty", "empty_image_file")
    try:
        header = image_format.read(content)
    except image_format.UnknownFormat as error:
        raise part_error(path, "it is no PNG, JPEG, GIF or WebP image", "unsupported_image_media_type") from error
    except image_format.Unreadable as error:
        raise part_error(path, "the image is broken: its size cannot be read", "image_parse_error") from error
    if header.width * header.height > limits.IMAGE_PIXELS_MAX:
        size = f"{header.width}x{header.height} pixels"
        raise part_error(
            path, f"the image has {size}, more than {limits.IMAGE_PIXELS_MAX / 1e6:.0f} million", "image_too_large"
        )
    return Image(content, header.kind, header.width, header.height, detail)
