from __future__ import annotations

import time

from antiphon_core.clock import ManualClock, SystemClock


def test_the_system_clock_tells_unix_milliseconds() -> None:
    before_ms = time.time() * 1000
    now_ms = SystemClock().now_ms()
    assert before_ms - 1 <= now_ms <= time.time() * 1000 + 1


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    first = clock.monotonic()
    assert clock.monotonic() >= first


def test_a_manual_clock_moves_only_when_told_to() -> None:
    clock = ManualClock(now_ms=5_000)
    assert (clock.now_ms(), clock.monotonic()) == (5_000, 5.0)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (6_500, 6.5)
