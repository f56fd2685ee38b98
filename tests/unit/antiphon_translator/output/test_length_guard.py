from __future__ import annotations

import pytest

from antiphon_core.limits import OUTPUT_BYTES_MAX
from antiphon_translator.generation import UNLIMITED
from antiphon_translator.output.length_guard import SLACK_MESSAGES, TOKEN_BYTES_MAX, TOKEN_MESSAGES_MAX, LengthGuard


class Text:
    """A text with tokens of four characters, and the number of times that it was counted."""

    def __init__(self, max_tokens: int) -> None:
        self.chars = 0
        self.counts = 0
        self.guard = LengthGuard(max_tokens, self.count)

    def count(self) -> int:
        self.counts += 1
        return self.chars // 4

    def fits(self, messages: int, chars: int) -> int:
        """The number of these messages before the end."""
        for number in range(messages):
            self.chars += chars
            if self.guard.is_passed_by(chars):
                return number
        return messages


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


@pytest.mark.parametrize("count", [None, lambda: 1])
def test_output_without_a_limit_ends_at_the_storable_size(count: object) -> None:
    guard = LengthGuard(UNLIMITED, count if callable(count) else None)
    assert not guard.is_passed_by(OUTPUT_BYTES_MAX)
    assert guard.is_passed_by(1)
