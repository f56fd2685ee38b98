"""Added tokens that part a text for good: what stands on one side of them cannot change the ids on the other.

A tokenizer looks for its added tokens first; what stands between them it normalises, splits and encodes piece by piece.
So a text can be cut behind such a token, and its parts encoded one by one, or not at all if their ids are known
(prompt_cache.py). That is exact where

* the token is found wherever it is spelt: no other token begins before it and reaches into it, or begins as it does and
  is longer;
* it takes nothing from its surroundings (`lstrip`, `rstrip`, `single_word`), and is looked for before the text is
  normalised;
* no step asks where in the whole text a piece stands, as Metaspace does when it marks the first word only, leaves
  something to chance, as dropout does, or says a text more than once, as a post-processor's template can.

What is not known to be so is taken not to be, and then there are no separators.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from math import prod
from typing import Any

from tokenizers import AddedToken, Tokenizer, models

# Each looks at one piece, and at nothing else.
_NORMALIZERS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend", "Replace", "Strip"}
_PRE_TOKENIZERS = {"ByteLevel", "Digits", "Metaspace", "Split", "Whitespace"}
_POST_PROCESSORS = {"BertProcessing", "ByteLevel", "RobertaProcessing", "TemplateProcessing"}
_MEMBERS = ("normalizers", "pretokenizers", "processors")
_GROWTH = {"NFC": 3, "Prepend": 2, "Replace": 3, "Strip": 1}
_GROWTH_MAX = 11  # NFKC writes 33 bytes for the 3 of U+FDFA
_ANYWHERE = ("always", "never")  # where Metaspace may mark a word: not only at the beginning of the text


def of(tokenizer: Tokenizer) -> frozenset[str]:
    """The separators of a vocabulary."""
    if not _is_local(tokenizer):
        return frozenset()
    added: Collection[AddedToken] = tokenizer.get_added_tokens_decoder().values()
    plain = {
        token.content for token in added if not (token.lstrip or token.rstrip or token.single_word or token.normalized)
    }
    return frozenset(plain - _disturbed([token.content for token in added]))


def _is_local(tokenizer: Tokenizer) -> bool:
    """Whether each piece of a text is encoded on its own, and always in the same way."""
    return (
        _is_certain(tokenizer.model)
        and not tokenizer.encode_special_tokens
        and all(map(_says_once, _steps(tokenizer.post_processor)))
        and all(step["type"] in _NORMALIZERS for step in _steps(tokenizer.normalizer))
        and all(
            step["type"] in _PRE_TOKENIZERS and step.get("prepend_scheme", "never") in _ANYWHERE
            for step in _steps(tokenizer.pre_tokenizer)
        )
    )


def growth(tokenizer: Tokenizer) -> int:
    """How many times as many bytes normalising may make of a text that is not ASCII."""
    return prod(_GROWTH.get(step["type"], _GROWTH_MAX) for step in _steps(tokenizer.normalizer))


def _is_certain(model: Any) -> bool:
    """Whether it gives the same text the same ids each time: both kinds can be told to draw lots, for training."""
    if isinstance(model, models.BPE):
        return not model.dropout
    return isinstance(model, models.Unigram) and model.alpha is None and model.nbest_size is None


def _says_once(step: Mapping[str, Any]) -> bool:
    """Whether a post-processor leaves the ids alone, as long as it is to add none around them."""
    texts = [part for part in step.get("single", ()) if "Sequence" in part]
    return step["type"] in _POST_PROCESSORS and (step["type"] != "TemplateProcessing" or len(texts) == 1)


def _steps(component: Any) -> Iterator[Mapping[str, Any]]:
    """A normalizer, pre-tokenizer or post-processor as a tokenizer.json has it, one by one where it is a sequence."""
    if component is not None:
        yield from _flat(json.loads(component.__getstate__()))


def _flat(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if step["type"] != "Sequence":
        yield step
        return
    for name in _MEMBERS:
        for member in step.get(name, ()):
            yield from _flat(member)


def _disturbed(names: Collection[str]) -> set[str]:
    """Tokens that are not found wherever they are spelt, because of another that is found in their place."""
    known = set(names)
    prefixes: dict[str, set[str]] = {}
    for name in known:
        for length in range(1, len(name) + 1):
            prefixes.setdefault(name[:length], set()).add(name)
    disturbed: set[str] = set()
    for name in known:
        for start in range(len(name)):
            for end in range(start + 1, len(name) + 1):
                part = name[start:end]
                if part != name and part in known:
                    disturbed.add(part)
            if start:
                disturbed |= prefixes.get(name[start:], set())
    return disturbed
