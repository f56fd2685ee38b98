"""The effect of a spend on buckets and places. The common promises of all engines are in
`antiphon_store.testing.quotas`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import limits
from antiphon_core.ports.spending import Draw, Hold, Refusal, Spend
from antiphon_core.spending import MINUTE_MS, Account, Accounts, Bucket, answer_of

NOW_MS = 1_700_000_000_000
ONE = Draw("requests", amount=1, at_least=1, capacity=3, per_minute=3)


def test_a_clock_that_is_set_back_fills_nothing_twice() -> None:
    account = Account()
    account.spend(Spend([replace(ONE, amount=3)]), NOW_MS)
    for _ in range(3):
        account.spend(Spend([replace(ONE, amount=0)]), NOW_MS - MINUTE_MS)
        (level,) = account.spend(Spend([replace(ONE, amount=0, at_least=0)]), NOW_MS).levels
        assert level.level == 0
    (level,) = account.spend(Spend([replace(ONE, amount=0)]), NOW_MS + MINUTE_MS).levels
    assert level.level == 3


@given(
    level=st.floats(-(10**9), 10**6),
    per_minute=st.floats(0.001, 10**9),
    at_least=st.integers(1, 10**6),
    elapsed_ms=st.lists(st.integers(0, 10**6), max_size=20),
)
def test_who_comes_back_when_told_is_let_through(
    level: float, per_minute: float, at_least: int, elapsed_ms: list[int]
) -> None:
    draw = Draw("b", amount=1, at_least=at_least, capacity=10**6, per_minute=per_minute)
    account, now_ms = Account({"b": Bucket(level, 10**6, per_minute, NOW_MS)}), NOW_MS
    for each in elapsed_ms:
        now_ms += each
        account.spend(Spend([replace(draw, amount=0, at_least=0)]), now_ms)
    refusal = account.spend(Spend([draw]), now_ms).refusal
    if refusal is not None:
        assert refusal.retry_after_ms > 0
        assert account.spend(Spend([draw]), now_ms + refusal.retry_after_ms).refusal is None


def test_the_answer_of_an_engine() -> None:
    buckets = {"a": Bucket(0, 3, 3, NOW_MS), "b": Bucket(-1, 60, 60, NOW_MS)}
    draws = [replace(ONE, name="a", at_least=0), replace(ONE, name="b")]
    assert [(level.name, level.full_in_ms) for level in answer_of(draws, buckets, None).levels] == [
        ("a", 60_000),
        ("b", 61_000),
    ]
    assert answer_of(draws, buckets, "b").refusal == Refusal("b", 2_000)
    assert answer_of(draws, buckets, "").refusal == Refusal(None)


def test_tenants_who_left_nothing_to_remember_are_forgotten() -> None:
    accounts = Accounts()
    accounts.spend("debtor", Spend([replace(ONE, amount=100_000, at_least=0)]), NOW_MS)
    for number in range(20):
        accounts.spend(f"old-{number}", Spend([ONE], Hold(["p"], 1_000)), NOW_MS)
    later_ms = NOW_MS + limits.SPENDING_MEMORY_MS + MINUTE_MS
    for number in range(30):
        accounts.spend(f"new-{number}", Spend([ONE]), later_ms)
    assert "debtor" in accounts
    assert all(f"new-{number}" in accounts for number in range(30))
    assert not any(f"old-{number}" in accounts for number in range(20))


@pytest.mark.parametrize("hold", [None, Hold(["p"], 2 * limits.SPENDING_MEMORY_MS)])
def test_a_tenant_that_holds_a_place_is_not_idle(hold: Hold | None) -> None:
    account = Account()
    account.spend(Spend([ONE], hold), NOW_MS)
    assert not account.is_idle(NOW_MS)
    assert account.is_idle(NOW_MS + limits.SPENDING_MEMORY_MS) == (hold is None)
