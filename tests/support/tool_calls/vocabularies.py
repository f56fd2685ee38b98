"""Vocabularies for vectors: the parts of real ones that fixtures use, and one of bytes and markers for all others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.tool_calls.vectors import GOLDEN, Vector


@dataclass(frozen=True)
class Vocabulary:
    """A small vocabulary. `number` maps ids of the real vocabulary to ids of this one, because a tokenizer of few
    pieces has to renumber them."""

    tokenizer: ModelTokenizer
    number: Mapping[int, int]

    def ids(self, vector: Vector) -> list[int]:
        """Returns the ids of a vector, or else the ids of its characters and markers."""
        return [self.number[each] for each in vector.ids] if self.number else self.tokenizer.encode(vector.raw)


@cache
def syntax(family: str, repository: str, markers: tuple[str, ...]) -> TokenSyntax:
    return TokenSyntax(families.load(family), vocabulary(repository, markers).tokenizer)


@cache
def vocabulary(repository: str, markers: tuple[str, ...]) -> Vocabulary:
    slices: dict[str, Any] = json.loads((GOLDEN / "vocabularies.json").read_text("utf-8"))
    of_bytes: dict[str, Any] = {"pieces": {}, "added": {}, "not_used": markers}
    return made_of(**next((each for each in slices.values() if repository in each["repositories"]), of_bytes))


def made_of(
    *, pieces: Mapping[str, str], added: Mapping[str, str], not_used: Iterable[str] = (), **_about: object
) -> Vocabulary:
    """Makes a vocabulary of these tokens, given by their ids in a larger vocabulary."""
    tokenizer = Tokenizer(_bytes_and(pieces.values()))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([_added(text) for text in (*added.values(), *not_used)])
    here = tokenizer.get_vocab(with_added_tokens=True)
    number = {int(there): here[text] for there, text in {**pieces, **added}.items()}
    return Vocabulary(ModelTokenizer(tokenizer), number)


def _bytes_and(pieces: Iterable[str]) -> BPE:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    texts = dict.fromkeys((*letters, *pieces))
    return BPE(vocab={text: number for number, text in enumerate(texts)}, merges=[])


def _added(text: str) -> AddedToken:
    return AddedToken(text, special=False, normalized=False)
