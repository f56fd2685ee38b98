from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_edge.routes.readiness import Readiness

FAULT = [ConnectionError("away")]


def test_edge_is_not_ready_before_its_dependencies() -> None:
    readiness = Readiness(hold_s=10, clock=ManualClock())
    assert not readiness.update(FAULT)
    assert readiness.update([])


def test_edge_becomes_unready_only_after_a_lasting_fault() -> None:
    clock = ManualClock()
    readiness = Readiness(hold_s=10, clock=clock)
    readiness.update([])
    for _ in range(2):
        clock.advance(4.9)
        assert readiness.update(FAULT)
    clock.advance(0.2)
    assert not readiness.update(FAULT)


def test_edge_is_ready_at_once_when_the_fault_ends() -> None:
    clock = ManualClock()
    readiness = Readiness(hold_s=10, clock=clock)
    readiness.update([])
    clock.advance(60)
    assert not readiness.update(FAULT)
    assert readiness.update([])
    assert readiness.update(FAULT)
