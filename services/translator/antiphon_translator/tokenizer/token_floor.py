"""A lower bound for the number of tokens of a text, without encoding it.

A token stands for a bounded number of bytes, so a text that is longer than the context times that number cannot fit.
That holds where

* each byte or character becomes part of a token: not where a run of unknown characters becomes one unknown token, or
  where white space is dropped;
* normalising shortens a text by a known factor at most;
* no added token consumes the white space around it. Where one does, white space is not counted.

For a tokenizer that is not known to fulfil this the bound is 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

from tokenizers import AddedToken, Tokenizer, models

from antiphon_translator.tokenizer.components import steps

_SHRINKING = {"ByteLevel": 1, "NFC": 3, "Prepend": 1}
"""The factor by which each normalizer may shorten a text."""
_PRE_TOKENIZERS = {"ByteLevel", "Digits", "Metaspace", "Punctuation", "Split"}
_SPACE_MARK = "\u2581"


class TokenFloor:
    """The lower bound for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        added = list(tokenizer.get_added_tokens_decoder().values())
        self._has_floor = _loses_nothing(tokenizer) and not any(token.single_word for token in added)
        self._counts_spaces = not any(token.lstrip or token.rstrip for token in added)
        self._token_bytes_max = _longest(tokenizer, added) * _shrinking(tokenizer) if self._has_floor else 0

    def of(self, text: str) -> int:
        """The least number of tokens that a text can have."""
        if not self._has_floor:
            return 0
        counted = text if self._counts_spaces else "".join(text.split())
        size = len(counted) if counted.isascii() else len(counted.encode("utf-8", "replace"))
        return -(-size // self._token_bytes_max)


def _loses_nothing(tokenizer: Tokenizer) -> bool:
    before, normalizers = steps(tokenizer.pre_tokenizer), steps(tokenizer.normalizer)
    is_bytes = any(step["type"] == "ByteLevel" for step in (*before, *normalizers))
    return (
        isinstance(tokenizer.model, models.BPE | models.Unigram)
        and (is_bytes or _has_byte_fallback(tokenizer.model))
        and all(step["type"] in _PRE_TOKENIZERS and step.get("behavior") != "Removed" for step in before)
        and all(step["type"] in _SHRINKING or _only_lengthens(step) for step in normalizers)
    )


def _has_byte_fallback(model: Any) -> bool:
    """Whether the tokens of an unknown character are its bytes. The library shows it as a member of BPE only."""
    if isinstance(model, models.Unigram):
        return bool(json.loads(model.__getstate__()).get("byte_fallback"))
    return bool(model.byte_fallback)


def _only_lengthens(step: Mapping[str, Any]) -> bool:
    """Whether a normalizer replaces a text by one that is at least as long."""
    pattern = step.get("pattern", {}).get("String") if step["type"] == "Replace" else None
    return pattern is not None and len(step["content"].encode()) >= len(pattern.encode())


def _shrinking(tokenizer: Tokenizer) -> int:
    return prod(_SHRINKING.get(step["type"], 1) for step in steps(tokenizer.normalizer))


def _longest(tokenizer: Tokenizer, added: list[AddedToken]) -> int:
    """The bytes of the longest token. In a byte-level vocabulary a token has one character for each of its bytes."""
    names = tokenizer.get_vocab(with_added_tokens=False)
    is_fallback = _has_byte_fallback(tokenizer.model)
    lengths = (len(name.replace(_SPACE_MARK, " ").encode()) for name in names) if is_fallback else map(len, names)
    longest: int = max((1, *lengths, *(len(token.content.encode()) for token in added)))
    return longest
