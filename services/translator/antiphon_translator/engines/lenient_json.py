r"""Reads the JSON of model servers, which is not always JSON.

Servers write NaN and Infinity (as Python's json module does), cut a character of two UTF-16 units into two escapes in
two messages (`"\ud83d"`, `"\ude00"`), and put two messages into one event. Strict JSON is parsed as such, at the price
of strict JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from antiphon_core.jsons import loads

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,]*(?:data:)?\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HIGH_AT_END = re.compile("[\ud800-\udbff]$")
REPLACEMENT = "\ufffd"


def values_in(data: bytes) -> Iterator[object]:
    """The values in `data`, one behind the other. Texts may have lone surrogates. ValueError: the rest is no JSON."""
    try:
        value = loads(data)
    except ValueError:
        yield from _lenient_values(data.decode("utf-8", "replace"))
    else:
        yield value


def _lenient_values(text: str) -> Iterator[object]:
    at = 0
    while (at := _behind_gap(text, at)) < len(text):
        try:
            value, at = _DECODER.raw_decode(text, at)
        except RecursionError as error:
            raise ValueError("nested too deep") from error
        yield value


def _behind_gap(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return match.end() if match is not None else at


def without_surrogates(text: str) -> str:
    """A whole text, in which the two halves of a character are joined and lone halves are U+FFFD."""
    return text if text.isascii() else Halves().feed(text, is_last=True)


class Halves:
    """Joins the halves of characters of a text that arrives in pieces."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str, *, is_last: bool = False) -> str:
        """The text that is complete with this piece. Half a character at its end is held back, unless it is the
        last piece; a half without its other half is U+FFFD."""
        if not self._held and (piece.isascii() or _SURROGATE.search(piece) is None):
            return piece
        text = _PAIR.sub(_join_pair, self._held + piece)
        self._held = text[-1:] if not is_last and _HIGH_AT_END.search(text) else ""
        return _SURROGATE.sub(REPLACEMENT, text.removesuffix(self._held))


def _join_pair(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")
