from __future__ import annotations

import random

import pytest
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE

from antiphon_translator.tokenizer import token_texts
from antiphon_translator.tokenizer.tokens import Detokenizer, ModelTokenizer
from tests.support.served_models import tokenizer
from tests.support.tool_calls.random_tokens import PIECES, RandomTokens, byte_level, sentence_pieces

ADDED = "<end>"


def text_of(tokens: RandomTokens, token: str | bytes) -> str:
    data = token if isinstance(token, bytes) else token.encode()
    assert tokens.tokenizer.text_within is not None
    return tokens.tokenizer.text_within(tokens.ids[data])


@pytest.mark.parametrize("tokens", [byte_level(ADDED), sentence_pieces(ADDED)], ids=["bytes", "pieces"])
def test_every_whole_piece_has_its_text_with_its_leading_space(tokens: RandomTokens) -> None:
    assert [text_of(tokens, piece) for piece in PIECES] == [*PIECES]


@pytest.mark.parametrize("tokens", [byte_level(ADDED), sentence_pieces(ADDED)], ids=["bytes", "pieces"])
def test_added_token_part_of_a_character_and_unknown_id_have_no_text(tokens: RandomTokens) -> None:
    of = tokens.tokenizer.text_within
    assert of is not None
    assert (text_of(tokens, ADDED), text_of(tokens, b"\xe5"), of(tokens.tokenizer.size)) == ("", "", "")


def test_byte_that_is_decoded_with_those_beside_it_has_no_text() -> None:
    assert (text_of(byte_level(), b"A"), text_of(sentence_pieces(), b"A")) == ("A", "")


@pytest.mark.parametrize("tokens", [byte_level(ADDED), sentence_pieces(ADDED)], ids=["bytes", "pieces"])
def test_detokenizer_returns_the_text_of_a_token_behind_any_others(tokens: RandomTokens) -> None:
    chance, of = random.Random(1), tokens.tokenizer.text_within
    assert of is not None
    detokenizer, compared = Detokenizer(tokens.tokenizer), 0
    for token_id in (chance.randrange(tokens.tokenizer.size) for _ in range(5_000)):
        is_clear = detokenizer.is_between_characters
        text = detokenizer.feed(token_id)
        if is_clear and of(token_id) and "\ufffd" not in of(token_id):
            assert text == of(token_id)
            compared += 1
    assert compared > 150


def test_most_tokens_of_a_real_vocabulary_have_a_text() -> None:
    of = tokenizer().text_within
    assert of is not None
    assert sum(map(bool, map(of, range(tokenizer().size)))) > 0.95 * tokenizer().size


@pytest.mark.parametrize(
    ("decoder", "expected"),
    [
        (decoders.ByteLevel(), True),
        (decoders.Metaspace(), True),
        (decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]), True),
        (decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]), True),
        (decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 0, 1)]), False),
        (decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 2, 0)]), False),
        (decoders.Sequence([decoders.Fuse(), decoders.Replace("▁▁", " ")]), False),
        (decoders.WordPiece(), False),
        (decoders.BPEDecoder(), False),
        (None, False),
    ],
)
def test_only_decoders_that_write_token_by_token_are_joined(decoder: decoders.Decoder | None, expected: bool) -> None:
    made = Tokenizer(BPE())
    if decoder is not None:
        made.decoder = decoder
    assert token_texts.are_joined(made) is expected
    assert (ModelTokenizer(made).text_within is not None) is expected
