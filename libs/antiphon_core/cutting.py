"""Texts that may have any length, cut to what there is room for."""

from __future__ import annotations

_GAP = " [...] "


def cut(text: str, bytes_max: int) -> str:
    """A text of so many bytes of UTF-8 at most: of one that is longer, its beginning and its end."""
    raw = text.encode(errors="surrogatepass")
    if len(raw) <= bytes_max:
        return text
    keep = (bytes_max - len(_GAP)) // 2
    return _whole(raw[:keep]) + _GAP + _whole(raw[-keep:])


def _whole(raw: bytes) -> str:
    """The letters that are whole in a piece of a text."""
    return raw.decode(errors="ignore")
