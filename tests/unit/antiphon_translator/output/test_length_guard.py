from __future__ import annotations

import pytest

from antiphon_core.limits import OUTPUT_BYTES_MAX
from antiphon_translator.generation import UNLIMITED
from antiphon_translator.output.length_guard import SLACK_MESSAGES, TOKEN_BYTES_MAX, TOKEN_MESSAGES_MAX, LengthGuard


class Text:
    """A text whose tokens are four characters long, and how often they were counted."""

    def __init__(self, max_tokens: int) -> None:
        self.chars = 0
        self.counts = 0
        self.guard = LengthGuard(max_tokens, self.count)

    def count(self) -> int:
        self.counts += 1
        return self.chars // 4

    def fits(self, messages: int, chars: int) -> int:
        """How many of these messages came before the end."""
        for number in range(messages):
            self.chars += chars
            if self.guard.is_passed_by(chars):
                return number
        return messages


def test_a_server_that_counts_is_not_counted_after() -> None:
    text = Text(1_000)
    assert text.fits(1_000, 4) == 1_000
    assert text.counts == 0


def test_more_messages_than_tokens_end_at_the_limit() -> None:
    text = Text(1_000)
    assert text.fits(10_000, 4) == 1_000
    assert text.counts == 1


def test_single_characters_pass_and_are_counted_seldom() -> None:
    text = Text(1_000)
    assert 3_999 <= text.fits(10_000, 1) <= 4_200
    assert text.counts < 30


def test_one_message_with_too_much_text() -> None:
    assert Text(1_000).fits(1, 100_000) == 0


@pytest.mark.parametrize(("chars", "most"), [(1, 16 * TOKEN_MESSAGES_MAX + SLACK_MESSAGES), (1_000, 1)])
def test_without_a_tokenizer_a_token_has_so_many_messages_and_bytes(chars: int, most: int) -> None:
    guard = LengthGuard(16, None)
    assert sum(not guard.is_passed_by(chars) for _ in range(most)) == most
    assert guard.is_passed_by(TOKEN_BYTES_MAX * 16)


@pytest.mark.parametrize("count", [None, lambda: 1])
def test_an_output_without_a_limit_ends_where_it_could_not_be_stored(count: object) -> None:
    guard = LengthGuard(UNLIMITED, count if callable(count) else None)
    assert not guard.is_passed_by(OUTPUT_BYTES_MAX)
    assert guard.is_passed_by(1)
