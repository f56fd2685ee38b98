from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_edge.door.token_bucket import TokenBucket


def test_a_minutes_worth_fits_at_once_and_fills_again_over_a_minute() -> None:
    bucket = TokenBucket(60, 0.0)
    bucket.spend(60, 0.0)
    assert bucket.level(0.0) == 0
    assert bucket.wait_s(1, 0.0) == 1.0
    assert bucket.level(30.0) == 30
    assert not bucket.full(59.9)
    assert bucket.full(60.0)
    assert bucket.level(1_000.0) == 60


def test_what_is_spent_beyond_the_level_is_a_debt() -> None:
    bucket = TokenBucket(60, 0.0)
    bucket.spend(180, 0.0)
    assert bucket.level(0.0) == -120
    assert bucket.wait_s(1, 0.0) == 121.0
    assert bucket.level(121.0) == 1


def test_one_unit_fits_however_slowly_it_fills() -> None:
    bucket = TokenBucket(0.5, 0.0)
    assert bucket.level(0.0) == 1
    bucket.spend(1, 0.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(120.0)


@given(
    st.integers(min_value=1, max_value=1_000),
    st.lists(st.tuples(st.floats(min_value=0, max_value=20), st.integers(min_value=1, max_value=50)), max_size=60),
)
def test_never_more_is_let_through_than_a_minutes_worth_and_the_average(
    per_minute: int, asked: list[tuple[float, int]]
) -> None:
    bucket, now_s, through = TokenBucket(per_minute, 0.0), 0.0, 0
    for pause_s, amount in asked:
        now_s += pause_s
        if bucket.level(now_s) >= amount:
            bucket.spend(amount, now_s)
            through += amount
        assert through <= per_minute + per_minute * now_s / 60 + 1e-6
