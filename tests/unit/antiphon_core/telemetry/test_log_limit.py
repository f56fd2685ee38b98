from __future__ import annotations

from antiphon_core.telemetry.log_limit import LogLimit


def test_the_first_event_is_due_and_later_ones_together_after_the_interval() -> None:
    limit = LogLimit(10.0)
    assert [limit.count(now_s) for now_s in (5.0, 5.0, 14.9, 15.0, 15.1)] == [1, 0, 0, 3, 0]


def test_an_event_after_a_long_pause_is_due() -> None:
    limit = LogLimit(10.0)
    assert [limit.count(now_s) for now_s in (0.0, 100.0, 101.0, 110.0)] == [1, 1, 0, 2]
