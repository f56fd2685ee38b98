from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordLevel, WordPiece
from tokenizers.pre_tokenizers import ByteLevel, Whitespace

from antiphon_translator.tokenizer.token_bytes import _BYTE_OF, TokenBytes
from tests.support.served_models import tokenizer
from tests.support.small_vocabulary import byte_tokenizer, fallback_tokenizer


def test_every_byte_has_one_byte_level_character() -> None:
    assert set(_BYTE_OF) == set(ByteLevel.alphabet())
    assert sorted(_BYTE_OF.values()) == list(range(256))


@given(st.text())
def test_token_bytes_of_a_text_join_to_its_bytes(text: str) -> None:
    ids = tokenizer().encode(text)
    assume(tokenizer().decode(ids) == text)  # this vocabulary lacks a few bytes
    assert b"".join(map(tokenizer().bytes_of, ids)) == text.encode()


def test_byte_tokens_outside_utf8_keep_their_bytes() -> None:
    vocabulary = byte_tokenizer("<think>")
    ids = [vocabulary.token_id(letter) for letter, byte in sorted(_BYTE_OF.items(), key=lambda pair: pair[1])]
    assert b"".join(vocabulary.bytes_of(each) for each in ids if each is not None) == bytes(range(256))


def test_added_tokens_have_the_bytes_of_their_text() -> None:
    vocabulary = byte_tokenizer("<|é|>", "<x>")
    assert [vocabulary.bytes_of(256), vocabulary.bytes_of(257)] == ["<|é|>".encode(), b"<x>"]


@pytest.mark.parametrize("token_id", [-1, 49_152, 10**6, 2**32, 2**70])
def test_ids_outside_the_vocabulary_have_no_bytes(token_id: int) -> None:
    assert tokenizer().bytes_of(token_id) == b""


def test_sentencepiece_tokens_have_spaces_and_fallback_bytes() -> None:
    vocabulary = fallback_tokenizer("▁Hello", "lo", "▁", "ü", "<0xZZ>")
    pieces = ("▁Hello", "lo", "▁", "ü", "<0xE2>", "<0xZZ>")
    written = [vocabulary.bytes_of(vocabulary.token_id(piece) or 0) for piece in pieces]
    assert written == [b" Hello", b"lo", b" ", "ü".encode(), b"\xe2", b"<0xZZ>"]


def test_wordpiece_continuation_has_no_space() -> None:
    made = Tokenizer(WordPiece({"a": 0, "new": 1, "##er": 2, "[UNK]": 3}))
    made.pre_tokenizer, made.decoder = Whitespace(), WordPieceDecoder()
    of = TokenBytes(made, {}).of
    assert [of(1), of(2)] == [b" new", b"er"]


def test_token_of_a_vocabulary_without_a_decoder_is_a_word_with_a_space() -> None:
    assert TokenBytes(Tokenizer(WordLevel({"a": 0, "new": 1})), {}).of(1) == b" new"
