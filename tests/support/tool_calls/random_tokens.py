"""Vocabularies whose tokens are easily told, and random cuts of texts into these tokens, also within characters and
markers, where no tokenizer would cut."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers.decoders import ByteFallback, ByteLevel, Fuse, Replace, Strip
from tokenizers.decoders import Sequence as Sequenced
from tokenizers.models import BPE

from antiphon_translator.tokenizer.token_bytes import _BYTE_OF
from antiphon_translator.tokenizer.tokens import ModelTokenizer

PIECES = (
    *("the", " the", " word", "Hello", " there", ",", " 北京", "北", "京", "🙂", "ï", "\u0301", "\ufffd", " \ufffd"),
    *("a", " b", "<", " <", "</", "tool", "_call", ">", "think", "[", "{", '{"', '"', "\\", "\n", "\n\n", " ", "  "),
    *("x ", " x ", "\t", "\u00a0", "\u2028", "\x85", "call", "name", "if (", "lots", "of", " of\n", "|", "<|", "|>"),
)
_CHARACTER_OF = {byte: character for character, byte in _BYTE_OF.items()}


@dataclass(frozen=True, eq=False)
class RandomTokens:
    """A tokenizer, and the ids of its tokens by their bytes."""

    tokenizer: ModelTokenizer
    ids: Mapping[bytes, int]

    def cut(self, text: str, chance: random.Random) -> list[int]:
        """The ids of a text that is cut at random."""
        data, found = text.encode(), list[int]()
        while data:
            here = [token for token in self._by_first_byte[data[0]] if data.startswith(token)]
            token = max(here, key=len) if chance.random() < 0.5 else chance.choice(here)
            found.append(self.ids[token])
            data = data[len(token) :]
        return found

    @cached_property
    def _by_first_byte(self) -> Mapping[int, Sequence[bytes]]:
        return {first: [token for token in self.ids if token[0] == first] for first in range(256)}


@cache
def byte_level(*added: str) -> RandomTokens:
    """A vocabulary of bytes and PIECES, as most models have it, with these added tokens."""
    tokens = [
        *(bytes((byte,)) for byte in range(256)),
        *(piece.encode() for piece in PIECES if len(piece.encode()) > 1),
    ]
    made = _tokenizer({"".join(map(_CHARACTER_OF.__getitem__, token)): n for n, token in enumerate(tokens)}, added)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = ByteLevel()
    return _with_added(made, {token: number for number, token in enumerate(tokens)}, added)


@cache
def sentence_pieces(*added: str) -> RandomTokens:
    """A vocabulary of PIECES in SentencePiece's form, and of bytes for what no piece has, with these added tokens."""
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *(piece.replace(" ", "▁") for piece in PIECES)]
    made = _tokenizer({name: number for number, name in enumerate(names)}, added)
    made.decoder = Sequenced([Replace("▁", " "), ByteFallback(), Fuse(), Strip(" ", 1, 0)])
    tokens = {bytes((byte,)): byte + 1 for byte in range(256)}
    tokens |= {piece.encode(): number for number, piece in enumerate(PIECES, 257)}
    return _with_added(made, tokens, added)


def _tokenizer(vocabulary: Mapping[str, int], added: Iterable[str]) -> Tokenizer:
    made = Tokenizer(BPE(vocab=dict(vocabulary), merges=[], byte_fallback=True, unk_token="<unk>"))
    made.add_tokens([AddedToken(each, special=False, normalized=False) for each in added])
    return made


def _with_added(made: Tokenizer, tokens: Mapping[bytes, int], added: Iterable[str]) -> RandomTokens:
    here = made.get_vocab(with_added_tokens=True)
    return RandomTokens(ModelTokenizer(made), {**tokens, **{each.encode(): here[each] for each in added}})
