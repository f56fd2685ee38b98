from __future__ import annotations

from antiphon_translator.models.retained_shares import LINES_ITEMS_MAX, RetainedShares


class Now:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def test_tenant_retains_up_to_its_share_and_leaves_others_theirs() -> None:
    shares = RetainedShares(1_000, monotonic_s=Now())
    assert [shares.take("a", line, 400, 60) for line in "123"] == [True, True, False]
    assert shares.take("b", "1", 1_000, 60)
    assert not shares.take("b", "2", 1, 60)
    assert not RetainedShares(0).take("a", "1", 1, 60)


def test_line_of_turns_counts_once_with_its_longest_prompt() -> None:
    shares = RetainedShares(1_000, monotonic_s=Now())
    assert [shares.take("a", "line", tokens, 60) for tokens in (300, 900, 500, 1_000)] == [True] * 4
    assert not shares.take("a", "other", 1, 60)


def test_share_is_free_again_after_the_lifetime() -> None:
    now = Now()
    shares = RetainedShares(1_000, monotonic_s=now)
    assert shares.take("a", "1", 1_000, 60)
    assert shares.take("a", "1", 900, 30), "a shorter lifetime does not shorten the longer one"
    now.s = 59.0
    assert not shares.take("a", "2", 1_000, 60)
    now.s = 60.0
    assert shares.take("a", "2", 1_000, 60)


def test_number_of_lines_is_bounded() -> None:
    shares = RetainedShares(LINES_ITEMS_MAX, monotonic_s=Now())
    for number in range(LINES_ITEMS_MAX + 1):
        assert shares.take(f"tenant-{number}", "1", 1, 60)
    assert len(shares) == LINES_ITEMS_MAX
