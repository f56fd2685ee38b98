"""data: URLs, read strictly: base64 and nothing else.

Other readers repair what is not base64, each in its own way; what is repaired is no longer what the caller sent.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass

SCHEME = "data:"

_BASE64 = ";base64"


class NotData(Exception):
    """This is no data: URL with base64 in it. The message says why, and can be shown to the caller."""


class TooMuchData(Exception):
    """There is more in it than the caller may send."""


@dataclass(frozen=True, slots=True)
class Data:
    """`media_type` is in lower case and without parameters; empty where the URL names none."""

    media_type: str
    content: bytes


def is_data(url: str) -> bool:
    return url[: len(SCHEME)].lower() == SCHEME


def read(url: str, *, bytes_max: int) -> Data:
    """Decodes a data: URL. NotData: it is none; TooMuchData: it is too long, found before anything is decoded."""
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
