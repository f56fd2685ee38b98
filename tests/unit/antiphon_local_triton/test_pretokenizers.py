from __future__ import annotations

import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Sequence, Split

from antiphon_local_triton.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from tests.support.cases import in_one_test


def pieces(rule: PreTokenizer, text: str) -> list[str]:
    """Splits a text by the patterns of a rule."""
    cut = Sequence([Split(Regex(pattern), "isolated") for pattern in rule.patterns])
    return [piece for piece, _ in cut.pre_tokenize_str(text)]


TEXTS = ["", "It's 12345 o'clock, isn't it?", "a  b\n\n c\t", "ÉCOLE naïveté 日本語 😀👩‍👩‍👧", "x=[1,2];\r\n  # fine"]


@in_one_test("name", PRE_TOKENIZERS.keys())
@pytest.mark.parametrize("text", TEXTS)
def test_pre_tokenizers_lose_no_text(name: str, text: str) -> None:
    assert "".join(pieces(PRE_TOKENIZERS[name], text)) == text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-2", ["It", "'s", " 12345", " HOT", ",", "  ", " OK"]),
        ("smollm", ["It", "'s", " ", "1", "2", "3", "4", "5", " HOT", ",", "  ", " OK"]),
        ("llama-bpe", ["It", "'s", " ", "123", "45", " HOT", ",", "  ", " OK"]),
        ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", "5", " HOT", ",", "  ", " OK"]),
        ("gpt-4o", ["It's", " ", "123", "45", " HOT", ",", "  ", " OK"]),
    ],
)
def test_pre_tokenizers_split_numbers_and_contractions_differently(name: str, expected: list[str]) -> None:
    assert pieces(PRE_TOKENIZERS[name], "It's 12345 HOT,   OK") == expected
