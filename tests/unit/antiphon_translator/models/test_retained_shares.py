from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon_translator.models import retained_shares
from antiphon_translator.models.retained_shares import BRANCHES_MAX, CHUNK_TOKENS, LINES_PER_TENANT_MAX, RetainedShares


class Now:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def ids(tokens: int, first: int = 0) -> Sequence[int]:
    return range(first, first + tokens)


def test_tenant_retains_up_to_its_share_and_leaves_others_theirs() -> None:
    shares = RetainedShares(1_000, monotonic_s=Now())
    assert [shares.take("a", line, ids(400), 60) for line in "123"] == [True, True, False]
    assert shares.take("b", "1", ids(1_000), 60)
    assert not shares.take("b", "2", ids(1), 60)
    assert not RetainedShares(0).take("a", "1", ids(1), 60)


def test_prompts_that_extend_each_other_count_once() -> None:
    shares = RetainedShares(1_000, monotonic_s=Now())
    assert [shares.take("a", "line", ids(tokens), 60) for tokens in (300, 900, 900, 8 * CHUNK_TOKENS, 1_000)] == (
        [True] * 5
    )
    assert not shares.take("a", "other", ids(1), 60)


def test_unrelated_prompts_of_one_line_count_each() -> None:
    shares = RetainedShares(1_000, monotonic_s=Now())
    assert [shares.take("a", "line", ids(400, first), 60) for first in (0, 1_000, 2_000)] == [True, True, False]
    shares = RetainedShares(1_000, monotonic_s=Now())
    assert shares.take("a", "line", ids(640), 60)
    assert shares.take("a", "line", [*ids(320), *ids(320, 5_000)], 60), "half of it is new"
    assert not shares.take("a", "other", ids(41), 60)
    assert shares.take("a", "other", ids(40), 60)


def test_conversations_of_one_line_count_once_each_however_they_alternate() -> None:
    shares, shared = RetainedShares(1_280, monotonic_s=Now()), ids(256)
    for tokens in range(64, 513, 64):
        for first in (1_000, 2_000):
            assert shares.take("a", "line", [*shared, *ids(tokens, first)], 60)
    assert len(shares) == 2, "each is one branch, however long it grows"
    assert not shares.take("a", "other", ids(1), 60)


def test_shared_beginning_counts_as_long_as_a_branch_of_it() -> None:
    now = Now()
    shares, shared = RetainedShares(1_000, monotonic_s=now), ids(640)
    assert shares.take("a", "line", [*shared, *ids(64, 1_000)], 60)
    assert shares.take("a", "line", [*shared, *ids(64, 2_000)], 600)
    now.s = 60.0
    assert not shares.take("a", "other", ids(640), 60)


def test_oldest_branches_of_a_line_still_count() -> None:
    shares = RetainedShares(64 * (BRANCHES_MAX + 4), monotonic_s=Now())
    taken = [shares.take("a", "line", ids(64, 64 * number), 60) for number in range(BRANCHES_MAX + 5)]
    assert taken == [True] * (BRANCHES_MAX + 4) + [False]
    assert len(shares) == BRANCHES_MAX


def test_many_short_prompts_that_differ_behind_one_beginning_count() -> None:
    shares, beginning = RetainedShares(1_000, monotonic_s=Now()), ids(CHUNK_TOKENS)
    assert shares.take("a", "line", ids(640), 60)
    taken = [shares.take("a", "line", [*beginning, *ids(40, first)], 60) for first in range(1_000, 1_020)]
    assert taken == [True] * 9 + [False] * 11


def test_share_is_free_again_after_the_lifetime() -> None:
    now = Now()
    shares = RetainedShares(1_000, monotonic_s=now)
    assert shares.take("a", "1", ids(1_000), 60)
    assert shares.take("a", "1", ids(1_000), 30), "a shorter lifetime does not shorten the longer one"
    now.s = 59.0
    assert not shares.take("a", "2", ids(1_000), 60)
    now.s = 60.0
    assert shares.take("a", "2", ids(1_000), 60)
    now.s = 90.0
    assert not shares.take("a", "2", ids(1_000, 5_000), 60)
    assert shares.beginning("a", "2", ids(2_000)) == (1_000, 30)
    now.s = 120.0
    assert shares.beginning("a", "2", ids(2_000)) == (0, 0)
    assert shares.take("a", "2", ids(1_000, 5_000), 60)


def test_line_knows_how_much_of_a_prompt_is_retained() -> None:
    shares = RetainedShares(1_000, monotonic_s=Now())
    assert shares.take("a", "1", ids(100), 60)
    assert shares.beginning("a", "1", ids(500)) == (100, 60)
    assert shares.beginning("a", "1", ids(99)) == (CHUNK_TOKENS, 60), "whole chunks"
    assert [
        shares.beginning(*each) for each in (("a", "1", ids(9, 5)), ("a", "2", ids(500)), ("b", "1", ids(500)))
    ] == [(0, 0)] * 3


def test_lines_and_tenants_are_bounded_and_none_is_forgotten_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    now = Now()
    shares = RetainedShares(1_000, monotonic_s=now)
    assert all(shares.take("a", str(number), ids(1), 60) for number in range(LINES_PER_TENANT_MAX))
    assert not shares.take("a", "one more", ids(1), 60)
    assert shares.take("a", "0", ids(2), 60)
    monkeypatch.setattr(retained_shares, "TENANTS_MAX", 2)
    assert [shares.take(tenant, "1", ids(1_000), 60) for tenant in "bc"] == [True, False]
    assert not shares.take("b", "2", ids(1), 60)
    now.s = 60.0
    assert [shares.take(tenant, "1", ids(1_000), 60) for tenant in "cb"] == [True, True]
