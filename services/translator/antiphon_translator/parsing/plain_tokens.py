"""The tokens of a vocabulary that are text and nothing else, wherever they stand in a run of text: their texts, by id.

A token is plain if it is whole characters, if none of them can begin a marker that ends the run, and if no white space
ends it, which would be held back. An added token is never plain, and neither is a byte of a SentencePiece vocabulary,
because bytes side by side are decoded together.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon_translator.parsing.markers import Markers
from antiphon_translator.tokenizer.tokens import REPLACEMENT

IDS_MAX = 32_768
"""How many ids a table has, of 170 bytes each. A table that is full begins anew: to look a token up takes 3 us."""


class PlainTokens(dict[int, str]):
    """The text of each id; empty for an id that is not plain. Filled as ids are met."""

    def __init__(self, text_within: Callable[[int], str], markers: Markers) -> None:
        """`text_within` is that of the vocabulary (tokens.py)."""
        super().__init__()
        self._text_within = text_within
        self._markers = markers

    def __missing__(self, token_id: int) -> str:
        if len(self) >= IDS_MAX:
            self.clear()
        text = self[token_id] = self._plain(self._text_within(token_id))
        return text

    def _plain(self, text: str) -> str:
        is_plain = text == text.rstrip() and REPLACEMENT not in text and self._markers.first.search(text) is None
        return text if is_plain else ""
