"""Escapes text for PostgreSQL, which stores no NUL, neither in text nor in jsonb.

Two characters stand for each U+0000 and U+0001, so that order, equality and prefixes are kept:

    U+0000 -> U+0001 U+0001
    U+0001 -> U+0001 U+0002
"""

from __future__ import annotations

import re
from typing import Any

from antiphon_core.jsons import dumps, loads

_PLAIN_JSON = {rb"\u0000": rb"\u0001\u0001", rb"\u0001": rb"\u0001\u0002"}
_ORIGINAL_JSON = {plain.decode(): original.decode() for original, plain in _PLAIN_JSON.items()}

# A pair of backslashes is one character, and what follows it is no escape.
_IN_JSON = re.compile(rb"\\\\|\\u000[01]")
_PLAIN_IN_JSON = re.compile(r"\\\\|\\u0001\\u000[12]")


def plain(text: str) -> str:
    """Escapes text for the database."""
    return str(loads(to_json(text))) if "\x00" in text or "\x01" in text else text


def original(text: str) -> str:
    """Restores text from the database."""
    return str(from_json(dumps(text).decode())) if "\x01" in text else text


def to_json(value: Any) -> str:
    """Writes a value as JSON for the database."""
    written = dumps(value)
    if rb"\u000" in written:
        written = _IN_JSON.sub(lambda found: _PLAIN_JSON.get(found[0], found[0]), written)
    return written.decode()


def from_json(written: str) -> Any:
    """Reads a value from JSON of the database."""
    if r"\u0001" in written:
        written = _PLAIN_IN_JSON.sub(lambda found: _ORIGINAL_JSON.get(found[0], found[0]), written)
    return loads(written)
