"""Removes characters that people do not see from texts of tool servers.

A description is part of the prompt. Text in invisible characters (tags, zero-width and bidirectional marks, variation
selectors) reaches the model, but not the person who reads the description before approving a tool. No I/O.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from antiphon_core.cutting import cut

LINE_BYTES_MAX = 1_000
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_INVISIBLE = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
"""Fillers and variation selectors, which are letters and marks by their category."""
_KEPT = frozenset("\n\t")


def clean(text: str) -> str:
    """The text without invisible characters. Line feeds and tabs stay."""
    return text if text.isascii() and text.isprintable() else "".join(filter(_is_visible, text))


def clean_line(text: str) -> str:
    """A short text for one line, such as a message: visible, and of at most LINE_BYTES_MAX."""
    return cut(" ".join(clean(text[: 4 * LINE_BYTES_MAX]).split()), LINE_BYTES_MAX)


@lru_cache(maxsize=8_192)
def _is_visible(character: str) -> bool:
    if character in _KEPT:
        return True
    return character not in _INVISIBLE and unicodedata.category(character) not in _INVISIBLE_CATEGORIES
