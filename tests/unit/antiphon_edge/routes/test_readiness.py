from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_edge.routes.readiness import Readiness

FAULT = [ConnectionError("away")]


def test_an_edge_is_not_ready_before_all_is_there() -> None:
    readiness = Readiness(hold_s=10, clock=ManualClock())
    assert not readiness.holds(FAULT)
    assert readiness.holds([])


def test_an_absence_counts_once_it_has_lasted() -> None:
    clock = ManualClock()
    readiness = Readiness(hold_s=10, clock=clock)
    readiness.holds([])
    for _ in range(2):
        clock.advance(4.9)
        assert readiness.holds(FAULT)
    clock.advance(0.2)
    assert not readiness.holds(FAULT)


def test_what_is_back_counts_at_once() -> None:
    clock = ManualClock()
    readiness = Readiness(hold_s=10, clock=clock)
    readiness.holds([])
    clock.advance(60)
    assert not readiness.holds(FAULT)
    assert readiness.holds([])
    assert readiness.holds(FAULT)
