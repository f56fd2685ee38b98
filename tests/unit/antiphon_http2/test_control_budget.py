from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_http2.control_budget import ControlBudget
from antiphon_http2.frames import ConnectionFault
from antiphon_http2.limits import CONTROL_ITEMS_MAX, CONTROL_ITEMS_PER_S
from antiphon_http2.statuses import ErrorCode


def room(budget: ControlBudget) -> int:
    """The number of empty frames until the budget is spent."""
    count = 0
    with pytest.raises(ConnectionFault) as caught:
        while True:
            budget.charge(0)
            count += 1
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM
    return count


def test_budget_of_a_connection_is_filled_by_time_and_never_above_its_limit() -> None:
    clock = ManualClock()
    budget = ControlBudget(clock.monotonic)
    assert room(budget) == CONTROL_ITEMS_MAX
    clock.advance(1.0)
    assert room(budget) == CONTROL_ITEMS_PER_S - 1  # the frame that was too many is counted
    clock.advance(3_600.0)
    assert room(budget) == CONTROL_ITEMS_MAX + 1  # the frame that fills the budget is not counted


def test_budget_is_filled_by_calls_and_by_bytes_that_were_sent() -> None:
    budget = ControlBudget(ManualClock().monotonic)
    room(budget)
    budget.earn_for_bytes(2**20)
    for _ in range(10):
        budget.earn_for_call()
    assert room(budget) == 1_024 + 40 - 1


def test_large_frames_count_more() -> None:
    budget = ControlBudget(ManualClock().monotonic)
    budget.charge(64 * (CONTROL_ITEMS_MAX - 1))
    assert room(budget) == 0
