from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from antiphon_translator.tokenizer.token_floor import TokenFloor
from tests.support.served_models import tokenizer

SMOLLM2 = TokenFloor(tokenizer().library)


def fallback(*, byte_fallback: bool = True) -> Tokenizer:
    """A SentencePiece tokenizer of bytes, a few letters and one long token."""
    names = [f"<0x{byte:02X}>" for byte in range(256)] + ["\u2581", "a", "aa", "aaaa", "é"]
    vocabulary = {name: number for number, name in enumerate(names)}
    model = models.BPE(vocabulary, [("a", "a"), ("aa", "aa")], byte_fallback=byte_fallback, fuse_unk=True)
    made = Tokenizer(model)
    made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made.decoder = decoders.ByteFallback()
    return made


def test_floor_is_the_length_divided_by_the_longest_token() -> None:
    longest = max(map(len, tokenizer().library.get_vocab(with_added_tokens=False)))
    assert SMOLLM2.of("x" * (100 * longest)) == 100
    assert SMOLLM2.of("x" * (100 * longest) + "x") == 101
    assert SMOLLM2.of("") == 0


@given(st.text() | st.text(alphabet=" =-#\n", max_size=300))
def test_token_count_is_never_below_the_floor(text: str) -> None:
    assert SMOLLM2.of(text) <= len(tokenizer().encode(text))
    assert TokenFloor(fallback()).of(text) <= len(fallback().encode(text, add_special_tokens=False).ids)


def test_a_vocabulary_with_byte_fallback_has_a_floor() -> None:
    assert TokenFloor(fallback()).of("a" * 600) == 100  # <0x61> is six characters long


@pytest.mark.parametrize("byte_fallback", [True, False])
def test_unigram_vocabularies_have_a_floor_with_byte_fallback_only(byte_fallback: bool) -> None:
    names = [f"<0x{byte:02X}>" for byte in range(256)] + ["aaaa"]
    made = Tokenizer(models.Unigram([(name, -1.0) for name in names], 0, byte_fallback))
    assert TokenFloor(made).of("a" * 600) == (100 if byte_fallback else 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda made: setattr(made, "model", models.WordLevel({"x": 0}, unk_token="x")),
        lambda made: setattr(made, "model", models.BPE({"x": 0}, [], unk_token="x", fuse_unk=True)),
        lambda made: setattr(made, "normalizer", normalizers.Replace(Regex(" +"), " ")),
        lambda made: setattr(made, "normalizer", normalizers.NFKC()),
        lambda made: setattr(made, "pre_tokenizer", pre_tokenizers.WhitespaceSplit()),
        lambda made: setattr(made, "pre_tokenizer", pre_tokenizers.Split(" ", "removed")),
        lambda made: made.add_tokens([AddedToken("word", single_word=True)]),
    ],
)
def test_tokenizer_that_can_drop_text_has_no_floor(change: object) -> None:
    made = fallback()
    assert callable(change)
    change(made)
    assert TokenFloor(made).of("a" * 10_000) == 0


def test_floor_ignores_white_space_that_a_token_consumes() -> None:
    made = fallback()
    made.add_tokens([AddedToken("<end>", rstrip=True)])
    assert TokenFloor(made).of(" " * 10_000) == 0
    assert TokenFloor(made).of(" a" * 600) == 100


def test_floor_with_nfc_is_a_third() -> None:
    made = Tokenizer.from_str(json.dumps(json.loads(fallback().to_str()) | {"normalizer": {"type": "NFC"}}))
    assert TokenFloor(made).of("a" * 1_800) == 100
