"""Truncation of texts that may have any length."""

from __future__ import annotations

_GAP = " [...] "


def cut(text: str, bytes_max: int) -> str:
    """Truncates a text to `bytes_max` bytes of UTF-8. Of a longer text the beginning and the end are kept."""
    raw = text.encode(errors="surrogatepass")
    if len(raw) <= bytes_max:
        return text
    keep = (bytes_max - len(_GAP)) // 2
    return _whole(raw[:keep]) + _GAP + _whole(raw[-keep:])


def _whole(raw: bytes) -> str:
    """Decodes a piece of a text, without the characters that were cut apart at its ends."""
    return raw.decode(errors="ignore")
