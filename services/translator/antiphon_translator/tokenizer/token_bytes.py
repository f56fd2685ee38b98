"""The exact bytes of one token, even where they are only a part of a character.

The tokenizers library decodes ids to text, and writes U+FFFD for a part of a character. So the bytes are read from the
token's spelling in the vocabulary. The tokenizer's decoder shows which of three ways of spelling the vocabulary has:

    byte level       each character of the spelling is a byte
    byte fallback    `<0xE2>` is that byte, anything else is text
    neither          it is text

The text of a token is decoded behind a letter, because decoders drop a space at the beginning of a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

_FALLBACK = re.compile("<0x([0-9A-F]{2})>")
_IDS = range(2**32)  # the library raises OverflowError for others


def _byte_alphabet() -> Mapping[str, int]:
    """The byte of each character in a byte-level spelling: a printable character is its own byte, and the characters
    from U+0100 on stand for the other bytes, in order."""
    printable = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(256 + number): byte for number, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()


class TokenBytes:
    """The bytes of the tokens of one vocabulary, by id. Those of each token are computed once."""

    def __init__(self, tokenizer: Tokenizer, added: Mapping[int, str]) -> None:
        """`added` are the added tokens, which stand for their own text."""
        self._tokenizer = tokenizer
        decoders = set(_decoders(tokenizer))
        self._is_byte_level = "ByteLevel" in decoders
        self._has_fallback = "ByteFallback" in decoders
        self._known: dict[int, bytes] = {token_id: text.encode() for token_id, text in added.items()}

    def of(self, token_id: int) -> bytes:
        """The bytes that a token stands for; none for an id outside the vocabulary."""
        known = self._known.get(token_id)
        if known is None:
            spelling = self._tokenizer.id_to_token(token_id) if token_id in _IDS else None
            if spelling is None:
                return b""
            known = self._known[token_id] = self._read(token_id, spelling)
        return known

    def _read(self, token_id: int, spelling: str) -> bytes:
        if self._is_byte_level and all(character in _BYTE_OF for character in spelling):
            return bytes(_BYTE_OF[character] for character in spelling)
        if self._has_fallback and (byte := _FALLBACK.fullmatch(spelling)) is not None:
            return bytes.fromhex(byte[1])
        return self._decode([*self._ordinary, token_id]).removeprefix(self._decode(self._ordinary)).encode()

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    @cached_property
    def _ordinary(self) -> Sequence[int]:
        """The ids of the letter that stands before a token while that is decoded."""
        ids: Sequence[int] = self._tokenizer.encode("a", add_special_tokens=False).ids
        return ids


def _decoders(tokenizer: Tokenizer) -> Iterator[str]:
    """The types of the tokenizer's decoders, nested ones included."""
    if tokenizer.decoder is not None:
        yield from _names(json.loads(tokenizer.decoder.__getstate__()))


def _names(decoder: Mapping[str, Any]) -> Iterator[str]:
    yield decoder["type"]
    for inner in decoder.get("decoders", ()):
        yield from _names(inner)
