"""A strict reader of data: URLs in base64.

Lenient readers repair invalid base64, each in its own way, and get other bytes than the client meant.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass

SCHEME = "data:"

_BASE64 = ";base64"


class NotData(Exception):
    """The text is no data: URL in base64. The message says why, and can be shown to the client."""


class TooMuchData(Exception):
    """The data is longer than the limit."""


@dataclass(frozen=True, slots=True)
class Data:
    """The content of a data: URL. `media_type` is in lower case, without parameters; empty where the URL has none."""

    media_type: str
    content: bytes


def is_data(url: str) -> bool:
    return url[: len(SCHEME)].lower() == SCHEME


def read(url: str, *, bytes_max: int) -> Data:
    """Decodes a data: URL. NotData: it is not one in base64. TooMuchData: it has more than `bytes_max`; nearly all such
    URLs are rejected before decoding."""
    if not is_data(url):
        raise NotData("it must begin with 'data:'")
    head, comma, encoded = url[len(SCHEME) :].partition(",")
    if not comma or not head.lower().endswith(_BASE64):
        raise NotData("it must have the form data:TYPE;base64,DATA")
    if len(encoded) // 4 * 3 > bytes_max + 2:
        raise TooMuchData
    try:
        content = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError as error:
        raise NotData("what follows the comma is not base64") from error
    if len(content) > bytes_max:
        raise TooMuchData
    return Data(head.split(";")[0].strip().lower(), content)
