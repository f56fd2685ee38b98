"""The text of a token within a text, for vocabularies whose decoder writes text token by token.

byte level       the text is the bytes of all tokens in a row, so a token of whole characters is these characters
SentencePiece    `▁` in a piece is a space, and only the first space of a text is dropped; bytes in a row (`<0xE2>`)
                 are decoded together, so their text depends on the bytes around them
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_EACH_ALONE = ("Replace", "ByteFallback")
"""The types of decoders that change each piece alone; only bytes are joined by the second."""


class TokenTexts:
    """The texts of the tokens of one vocabulary, by id. `added` are its added tokens, and `bytes_of` maps an id to the
    bytes of its token."""

    def __init__(self, tokenizer: Tokenizer, added: Mapping[int, str], bytes_of: Callable[[int], bytes]) -> None:
        self._tokenizer = tokenizer
        self._added = added
        self._bytes_of = bytes_of

    def of(self, token_id: int) -> str:
        """The text of a token; empty for a token that is added or not whole characters, and for an unknown id."""
        written = self._bytes_of(token_id) if token_id not in self._added else b""
        if not written or _BYTE.fullmatch(self._tokenizer.id_to_token(token_id) or ""):
            return ""
        try:
            return written.decode()
        except UnicodeDecodeError:
            return ""


def are_joined(tokenizer: Tokenizer) -> bool:
    """Whether a text is the texts of its tokens in a row, but for the first space of SentencePiece."""
    decoder = tokenizer.decoder
    return decoder is not None and _joins(json.loads(decoder.__getstate__()))


def _joins(decoder: Mapping[str, Any]) -> bool:
    match decoder:
        case {"type": "ByteLevel" | "Metaspace"}:
            return True
        case {"type": "Sequence", "decoders": [*pieces, {"type": "Fuse"}, strip]}:
            return _is_first_space(strip) and _are_alone(pieces)
        case {"type": "Sequence", "decoders": [*pieces, {"type": "Fuse"}]}:
            return _are_alone(pieces)
    return False


def _are_alone(decoders: Sequence[Mapping[str, Any]]) -> bool:
    return all(each["type"] in _EACH_ALONE for each in decoders)


def _is_first_space(decoder: Mapping[str, Any]) -> bool:
    return bool(decoder["type"] == "Strip" and decoder["start"] <= 1 and not decoder["stop"])
