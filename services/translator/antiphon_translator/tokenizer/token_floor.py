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
from typing import Any

from tokenizers import AddedToken, Tokenizer

_SHRINKING = {"ByteLevel": 1, "NFC": 3, "Prepend": 1}
"""The factor by which each normalizer may shorten a text."""
_PRE_TOKENIZERS = {"ByteLevel", "Digits", "Metaspace", "Punctuation", "Split"}
_SPACE_MARK = "\u2581"
_MEMBERS = ("normalizers", "pretokenizers")


class TokenFloor:
    """The lower bound for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        settings = json.loads(tokenizer.to_str())
        added = list(tokenizer.get_added_tokens_decoder().values())
        self._has_floor = _loses_nothing(settings) and not any(token.single_word for token in added)
        self._counts_spaces = not any(token.lstrip or token.rstrip for token in added)
        self._token_bytes_max = _longest(tokenizer, settings, added) * _shrinking(settings) if self._has_floor else 0

    def of(self, text: str) -> int:
        """The least number of tokens that a text can have."""
        if not self._has_floor:
            return 0
        counted = text if self._counts_spaces else "".join(text.split())
        size = len(counted) if counted.isascii() else len(counted.encode("utf-8", "replace"))
        return -(-size // self._token_bytes_max)


def _loses_nothing(settings: Mapping[str, Any]) -> bool:
    model, before = settings["model"], _steps(settings["pre_tokenizer"])
    normalizers = _steps(settings["normalizer"])
    is_bytes = any(step["type"] == "ByteLevel" for step in (*before, *normalizers))
    return (
        model["type"] in ("BPE", "Unigram")
        and (is_bytes or bool(model.get("byte_fallback")))
        and all(step["type"] in _PRE_TOKENIZERS and step.get("behavior") != "Removed" for step in before)
        and all(step["type"] in _SHRINKING or _only_lengthens(step) for step in normalizers)
    )


def _only_lengthens(step: Mapping[str, Any]) -> bool:
    """Whether a normalizer replaces a text by one that is at least as long."""
    pattern = step.get("pattern", {}).get("String") if step["type"] == "Replace" else None
    return pattern is not None and len(step["content"].encode()) >= len(pattern.encode())


def _shrinking(settings: Mapping[str, Any]) -> int:
    factor = 1
    for step in _steps(settings["normalizer"]):
        factor *= _SHRINKING.get(step["type"], 1)
    return factor


def _longest(tokenizer: Tokenizer, settings: Mapping[str, Any], added: list[AddedToken]) -> int:
    """The bytes of the longest token. In a byte-level vocabulary a token has one character for each of its bytes."""
    names = tokenizer.get_vocab(with_added_tokens=False)
    is_fallback = bool(settings["model"].get("byte_fallback"))
    lengths = (len(name.replace(_SPACE_MARK, " ").encode()) if is_fallback else len(name) for name in names)
    return max((1, *lengths, *(len(token.content.encode()) for token in added)))


def _steps(component: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """A normalizer or pre-tokenizer as a list; of a sequence its members."""
    if component is None:
        return []
    if component["type"] != "Sequence":
        return [component]
    return [step for name in _MEMBERS for member in component.get(name, ()) for step in _steps(member)]
