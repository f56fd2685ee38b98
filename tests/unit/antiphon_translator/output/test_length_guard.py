from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from antiphon_core.limits import OUTPUT_BYTES_MAX
from antiphon_translator.generation import UNLIMITED
from antiphon_translator.output.length_guard import SLACK_MESSAGES, TOKEN_BYTES_MAX, TOKEN_MESSAGES_MAX, LengthGuard
from antiphon_translator.output.written_text import PIECE_BYTES, WrittenText
from antiphon_translator.tokenizer.tokens import ModelTokenizer


class Text(WrittenText):
    """A text with tokens of four characters, and the number of pieces that were counted."""

    def __init__(self, max_tokens: int) -> None:
        self.counts = 0
        super().__init__(CountedTokenizer(self))
        self.guard = LengthGuard(max_tokens, self)

    def fits(self, messages: int, chars: int) -> int:
        """The number of these messages before the end."""
        for number in range(messages):
            self.append(b"x" * chars, is_reasoning=False)
            if self.guard.is_passed_by(chars):
                return number
        return messages


class CountedTokenizer(ModelTokenizer):
    def __init__(self, text: Text) -> None:
        self._text = text

    def encode_all(self, texts: Sequence[str]) -> Any:
        assert max(map(len, texts)) <= PIECE_BYTES
        self._text.counts += 1
        return [[None] * (len(text) // 4) for text in texts]


def test_output_within_the_limit_is_never_counted() -> None:
    text = Text(1_000)
    assert text.fits(1_000, 4) == 1_000
    assert text.counts == 0


def test_messages_over_the_token_limit_end_at_the_limit() -> None:
    text = Text(1_000)
    assert text.fits(10_000, 4) == 1_000
    assert text.counts == 1


def test_single_characters_are_counted_seldom_and_end_near_the_limit() -> None:
    text = Text(1_000)
    assert 3_999 <= text.fits(10_000, 1) <= 4_200
    assert text.counts < 30


def test_one_message_with_too_much_text_passes_the_limit() -> None:
    assert Text(1_000).fits(1, 100_000) == 0


@pytest.mark.parametrize(("chars", "most"), [(1, 16 * TOKEN_MESSAGES_MAX + SLACK_MESSAGES), (1_000, 1)])
def test_without_a_tokenizer_messages_and_bytes_are_limited(chars: int, most: int) -> None:
    guard = LengthGuard(16, None)
    assert sum(not guard.is_passed_by(chars) for _ in range(most)) == most
    assert guard.is_passed_by(TOKEN_BYTES_MAX * 16)


def test_long_text_over_the_limit_is_counted_one_piece_for_each_message() -> None:
    text = Text(100_000)
    assert text.fits(100_000, 1) == 100_000
    for counted in range(1, 12):
        assert text.fits(1, 1) == 1
        assert text.counts == counted
    assert 300_000 < text.fits(1_000_000, 1) < 340_000


@pytest.mark.parametrize("text", [None, Text(UNLIMITED)])
def test_output_without_a_limit_ends_at_the_storable_size(text: Text | None) -> None:
    guard = LengthGuard(UNLIMITED, text)
    assert not guard.is_passed_by(OUTPUT_BYTES_MAX)
    assert guard.is_passed_by(1)
