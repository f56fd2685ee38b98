"""The outcomes of fetching a URL, shared by the fetcher and the readers of media parts. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from antiphon_core.limits import IMAGES_ITEMS_MAX


class Problem(Enum):
    """The kinds of failure for a URL; the values are OpenAI's error codes for images."""

    URL = "invalid_image_url"
    DOWNLOAD = "failed_to_download_image"
    SIZE = "image_file_too_large"


@dataclass(frozen=True, slots=True)
class Download:
    """The content of a URL. `media_type` is the one that its server sends, without parameters."""

    content: bytes = field(repr=False)
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a URL has no usable content. `why` can be shown to the client: it reveals nothing about this
    network."""

    problem: Problem
    why: str


Downloads = Mapping[str, Download | Failure]
"""The outcomes by URL; a URL is spelled as the client wrote it."""
NOTHING: Downloads = {}

_NOT_FETCHED = Failure(Problem.DOWNLOAD, f"a turn and its history can have at most {IMAGES_ITEMS_MAX} URLs")


def at(url: str, downloads: Downloads) -> Download | Failure:
    return downloads.get(url, _NOT_FETCHED)
