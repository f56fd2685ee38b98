from __future__ import annotations

import pytest

from antiphon_store.decisions.clock_steps import STEP_MS, set_back_ms

NOW_MS = 10_000_000


@pytest.mark.parametrize("stamp", [None, 0, NOW_MS - 1, NOW_MS, NOW_MS + STEP_MS])
def test_a_stamp_that_is_not_ahead_proves_nothing(stamp: int | None) -> None:
    assert set_back_ms({"stamp": stamp}, NOW_MS) == 0


def test_a_row_without_a_stamp_proves_nothing() -> None:
    assert set_back_ms({}, NOW_MS) == 0


def test_a_stamp_ahead_of_the_clock_says_how_far_it_was_set_back() -> None:
    assert set_back_ms({"stamp": NOW_MS + 3_600_000}, NOW_MS) == 3_600_000
