"""Small vocabularies for tests: one id for each byte, and the control tokens of the test."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteFallback, Fuse, Replace, Strip
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.decoders import Sequence as Sequenced
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from antiphon_translator.tokenizer.tokens import ModelTokenizer


@cache
def byte_tokenizer(*control_tokens: str) -> ModelTokenizer:
    """Returns a tokenizer whose ids 0 to 255 are bytes, in the order of the byte-level alphabet. Control tokens
    follow."""
    vocabulary = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    made = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = ByteLevelDecoder()
    made.add_tokens([AddedToken(token, normalized=False) for token in control_tokens])
    return ModelTokenizer(made)


@cache
def fallback_tokenizer(*pieces: str) -> ModelTokenizer:
    """Returns a tokenizer in SentencePiece's form: pieces in which `▁` is a space, and a token for each byte that is in
    no piece."""
    tokens = ("<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    made = Tokenizer(BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<unk>"))
    made.decoder = Sequenced([Replace("▁", " "), ByteFallback(), Fuse(), Strip(" ", 1, 0)])
    return ModelTokenizer(made)


def ids_of(tokenizer: ModelTokenizer, *texts: str) -> Sequence[int]:
    """Returns the ids of a model's output. Parts that are names of control tokens become those tokens, others are
    text."""
    ids: list[int] = []
    for text in texts:
        control = tokenizer.token_id(text) if len(text) > 1 else None
        ids += [control] if control is not None else _spelt(tokenizer, text)
    return ids


@cache
def _spelt(tokenizer: ModelTokenizer, text: str) -> list[int]:
    """Encodes a text letter by letter, so that no control token is matched in it. Cached: a trace of a turn would count
    the calls of the scripted model as calls of the turn."""
    return [token_id for letter in text for token_id in tokenizer.encode(letter)]
