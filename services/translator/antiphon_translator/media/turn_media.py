"""Reads the images and files of one turn, and lists the URLs that have to be fetched for it.

Nothing here does I/O: the URLs of `wanted` are fetched before the parts are read. For a model that sees no images none
are fetched: the request is rejected, or the model reads a placeholder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from antiphon_core import limits
from antiphon_core.jsons import Object, parse_array
from antiphon_core.ports.translator import Turn
from antiphon_translator.conversation import Image
from antiphon_translator.media import data_url, file_parts, image_parts
from antiphon_translator.media.downloads import NOTHING, Downloads
from antiphon_translator.media.part_errors import part_error, too_large
from antiphon_translator.media.sight import Sight

IMAGE, FILE = "input_image", "input_file"


def is_media(part: Any) -> bool:
    """Whether this part of a message's content is an image or a file."""
    return isinstance(part, dict) and part.get("type") in (IMAGE, FILE)


class TurnMedia:
    """Reads the images and files of one turn, and enforces their limits. Use once."""

    def __init__(self, sight: Sight = Sight.REFUSE, downloads: Downloads = NOTHING) -> None:
        self._sight = sight
        self._downloads = downloads
        self._images = 0
        self._bytes = 0
        self.has_read = False
        """Whether the turn has an image or a file."""

    def anew(self) -> TurnMedia:
        """A new reader with the same downloads, which has counted nothing yet."""
        return TurnMedia(self._sight, self._downloads)

    def read(self, part: Object, path: str) -> str | Image:
        """Reads a media part into the image or the text that the model is shown. InvalidRequest: the part cannot be
        read."""
        self.has_read = True
        if part.get("file_id") is not None:
            why = "there is no Files API on this server, so no file has an id here"
            raise part_error(f"{path}.file_id", why, "unsupported_parameter")
        if part["type"] == FILE:
            text = file_parts.read(part, path, self._downloads)
            self._count(len(text), path)
            return text
        self._images += 1
        if self._images > limits.IMAGES_ITEMS_MAX:
            raise part_error(path, f"a turn can have at most {limits.IMAGES_ITEMS_MAX} images", "unsupported_value")
        image = image_parts.read(part, path, self._sight, self._downloads)
        self._count(len(image.content) if isinstance(image, Image) else 0, path)
        return image

    def _count(self, size: int, path: str) -> None:
        self._bytes += size
        if self._bytes > limits.MEDIA_BYTES_MAX:
            raise too_large(path, "all images and files of a turn", limits.MEDIA_BYTES_MAX, "unsupported_value")


def may_name_urls(turn: Turn) -> bool:
    """Whether a turn may have URLs of images or files. A search of its bytes, because few turns need to be parsed."""
    return b"_url" in turn.input or b"_url" in turn.history


def wanted_urls(turn: Turn, sight: Sight) -> dict[str, int]:
    """The URLs to fetch before the turn is read, each with its maximum of bytes. InvalidRequest: an item list is no
    JSON array."""
    urls: dict[str, int] = {}
    if not may_name_urls(turn):
        return urls
    items = (*parse_array(turn.history, field="history", is_known=True), *parse_array(turn.input, field="input"))
    for url, bytes_max in islice(_urls(items, sight), limits.IMAGES_ITEMS_MAX):
        urls[url] = max(bytes_max, urls.get(url, 0))
    return urls


def _urls(items: Sequence[Any], sight: Sight) -> Iterator[tuple[str, int]]:
    for part in _parts(items):
        match part:
            case {"type": "input_image" | "computer_screenshot", "image_url": str(url)} if sight is Sight.NATIVE:
                bytes_max = limits.IMAGE_BYTES_MAX
            case {"type": "input_file", "file_url": str(url)}:
                bytes_max = limits.FILE_BYTES_MAX
            case _:
                continue
        if not data_url.is_data(url):
            yield url, bytes_max


def _parts(items: Sequence[Any]) -> Iterator[Any]:
    """Yields the content parts of all messages and tool outputs. The screenshot of a computer is an output without a
    list around it."""
    for item in items:
        if isinstance(item, dict):
            for content in (item.get("content"), item.get("output")):
                yield from content if isinstance(content, list) else (content,)
