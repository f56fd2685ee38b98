"""Reads an `input_file` part: the text of a text file."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_translator.media import data_url, text_files
from antiphon_translator.media.downloads import Download, Downloads, Failure, at
from antiphon_translator.media.part_errors import part_error, text_member, too_large

MEMBERS = ("file_data", "file_url")

_NAMELESS = "file"


def read(part: Object, path: str, downloads: Downloads) -> str:
    """Reads a file part into the text that the model is shown. InvalidRequest: the part cannot be read."""
    given = [member for member in MEMBERS if part.get(member) is not None]
    if len(given) != 1:
        raise part_error(path, "a file needs one of 'file_data' and 'file_url'", "invalid_value")
    (member,) = given
    url = text_member(part, member, path)
    is_data = member == "file_data" or data_url.is_data(url)
    name = _name(part, "" if is_data else url, path)
    path = f"{path}.{member}"
    file = _of_data(url, path) if is_data else _fetch(url, path, downloads)
    try:
        text = text_files.read(file.content, media_type=file.media_type, name=name)
    except text_files.NotText as error:
        raise part_error(
            path, f"{error}, and only files that are text in UTF-8 can be read", "unsupported_value"
        ) from error
    return text_files.show_file(text, name)


def _of_data(url: str, path: str) -> Download:
    try:
        data = data_url.read(url, bytes_max=limits.FILE_BYTES_MAX)
    except data_url.NotData as error:
        raise part_error(path, f"{error}", "invalid_value") from error
    except data_url.TooMuchData as error:
        raise too_large(path, "a file", limits.FILE_BYTES_MAX, "invalid_value") from error
    return Download(data.content, data.media_type)


def _fetch(url: str, path: str, downloads: Downloads) -> Download:
    found = at(url, downloads)
    if isinstance(found, Failure):
        raise part_error(path, f"the file could not be fetched: {found.why}", "invalid_value")
    if len(found.content) > limits.FILE_BYTES_MAX:  # an image may have the same URL, and be larger
        raise too_large(path, "a file", limits.FILE_BYTES_MAX, "invalid_value")
    return found


def _name(part: Object, url: str, path: str) -> str:
    """The `filename` of the part, else the last segment of its URL's path."""
    if part.get("filename") is not None:
        return text_member(part, "filename", path)
    try:
        return PurePosixPath(unquote(urlsplit(url).path)).name or _NAMELESS
    except ValueError:  # this is no URL, so it was not fetched either
        return _NAMELESS
