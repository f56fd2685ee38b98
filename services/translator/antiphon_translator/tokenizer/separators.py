"""Separators: added tokens behind which a text can be cut, so that the ids of its parts are those of the whole text.

A tokenizer finds its added tokens first, then normalises, splits and encodes each piece between them. So a text can be
cut behind such a token, and its parts encoded one by one, or taken from a cache (prompt_cache.py). That is exact where

* the token is found wherever the text spells it: no other token overlaps its beginning, or begins as it does and is
  longer;
* the token does not consume or check its surroundings (`lstrip`, `rstrip`, `single_word`), and is found before the text
  is normalised;
* no step depends on the position of a piece in the text, as Metaspace does when it marks the first word only, or on
  chance, as dropout does, and none repeats the text, as a post-processor's template can.

Only components that are known to behave so are accepted. With any other one there are no separators.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from tokenizers import AddedToken, Tokenizer, models

from antiphon_translator.tokenizer.components import steps

# Components that process each piece by itself.
_NORMALIZERS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend", "Replace", "Strip"}
_PRE_TOKENIZERS = {"ByteLevel", "Digits", "Metaspace", "Split", "Whitespace"}
_POST_PROCESSORS = {"BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing"}
_GROWTH = {"NFC": 3, "Prepend": 2, "Replace": 3, "Strip": 1}
_GROWTH_MAX = 11  # NFKC writes 33 bytes for the 3 of U+FDFA
_ANYWHERE = ("always", "never")  # prepend schemes of Metaspace that do not depend on the position in the text


def of(tokenizer: Tokenizer) -> frozenset[str]:
    """The separators of a vocabulary."""
    if not _is_local(tokenizer):
        return frozenset()
    added: Collection[AddedToken] = tokenizer.get_added_tokens_decoder().values()
    plain = {
        token.content for token in added if not (token.lstrip or token.rstrip or token.single_word or token.normalized)
    }
    return frozenset(plain - _find_shadowed([token.content for token in added]))


def _is_local(tokenizer: Tokenizer) -> bool:
    """Whether each piece of a text is encoded by itself, and always to the same ids."""
    return (
        _is_deterministic(tokenizer.model)
        and not tokenizer.encode_special_tokens
        and all(map(_keeps_ids, steps(tokenizer.post_processor)))
        and all(step["type"] in _NORMALIZERS for step in steps(tokenizer.normalizer))
        and all(
            step["type"] in _PRE_TOKENIZERS and step.get("prepend_scheme", "never") in _ANYWHERE
            for step in steps(tokenizer.pre_tokenizer)
        )
    )


def growth(tokenizer: Tokenizer) -> int:
    """The factor by which normalising may lengthen a text that is not ASCII, in bytes."""
    return prod(_GROWTH.get(step["type"], _GROWTH_MAX) for step in steps(tokenizer.normalizer))


def _is_deterministic(model: Any) -> bool:
    """Whether the model always gives a text the same ids. Both kinds have a random mode, for training."""
    if isinstance(model, models.BPE):
        return not model.dropout
    return isinstance(model, models.Unigram) and model.alpha is None and model.nbest_size is None


def _keeps_ids(step: Mapping[str, Any]) -> bool:
    """Whether a post-processor that must add no special tokens leaves the ids of a text unchanged."""
    texts = [part for part in step.get("single", ()) if "Sequence" in part]
    return step["type"] in _POST_PROCESSORS and (step["type"] != "TemplateProcessing" or len(texts) == 1)


def _find_shadowed(names: Collection[str]) -> set[str]:
    """The tokens that are not found everywhere, because another one that overlaps them can be found instead."""
    known = set(names)
    prefixes: dict[str, set[str]] = {}
    for name in known:
        for length in range(1, len(name) + 1):
            prefixes.setdefault(name[:length], set()).add(name)
    shadowed: set[str] = set()
    for name in known:
        for start in range(len(name)):
            for end in range(start + 1, len(name) + 1):
                part = name[start:end]
                if part != name and part in known:
                    shadowed.add(part)
            if start:
                shadowed |= prefixes.get(name[start:], set())
    return shadowed
