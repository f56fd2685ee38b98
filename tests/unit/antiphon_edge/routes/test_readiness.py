from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_edge.routes.readiness import Readiness

FAULT = [ConnectionError("away")]


def test_an_edge_is_not_ready_before_all_is_there() -> None:
    readiness = Readiness(hold_s=10, clock=ManualClock())
    assert not readiness.update(FAULT)
    assert readiness.update([])


def test_an_absence_counts_once_it_has_lasted() -> None:
    clock = ManualClock()
    readiness = Readiness(hold_s=10, clock=clock)
    readiness.update([])
    for _ in range(2):
        clock.advance(4.9)
        assert readiness.update(FAULT)
    clock.advance(0.2)
    assert not readiness.update(FAULT)


def test_what_is_back_counts_at_once() -> None:
    clock = ManualClock()
    readiness = Readiness(hold_s=10, clock=clock)
    readiness.update([])
    clock.advance(60)
    assert not readiness.update(FAULT)
    assert readiness.update([])
    assert readiness.update(FAULT)
