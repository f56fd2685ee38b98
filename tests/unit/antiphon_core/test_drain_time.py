from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_core.drain_time import DrainTime


def test_drains_of_parts_that_stop_one_after_the_other_count_from_one_moment() -> None:
    clock = ManualClock()
    drain_time = DrainTime(clock)
    clock.advance(100)  # runs
    assert drain_time.left_s(30) == 30
    clock.advance(20)
    assert drain_time.left_s(30) == 10
    clock.advance(20)
    assert drain_time.left_s(30) == 0
    assert drain_time.left_s(50) == 10


def test_shutdown_begins_once() -> None:
    clock = ManualClock()
    drain_time = DrainTime(clock)
    drain_time.begin()
    clock.advance(3)
    drain_time.begin()
    assert drain_time.left_s(5) == 2
