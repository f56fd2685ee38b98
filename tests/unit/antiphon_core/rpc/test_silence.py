from __future__ import annotations

import asyncio

import pytest

from antiphon_core.flow import Flow
from antiphon_core.rpc.silence import FIRST_SIGN_S, TICKS, SilenceWatch

LIMIT_S = 8.0
TICK_S = LIMIT_S / TICKS


class Loop:
    """The clock and the timers of an event loop, moved by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self._timers: list[Timer] = []
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def time(self) -> float:
        return self.now_s

    def call_at(self, due_s: float, callback: object) -> Timer:
        self._timers.append(Timer(due_s, callback))
        return self._timers[-1]

    def pass_(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while due := [timer for timer in self._timers if timer.is_live and timer.due_s <= end_s]:
            timer = min(due, key=lambda each: each.due_s)
            self.now_s = max(self.now_s, timer.due_s)
            timer.fire()
        self.now_s = end_s

    def sleep(self, seconds: float) -> None:
        """Freezes the process: timers fire after the sleep."""
        self.now_s += seconds
        self.pass_(0)


class Timer:
    def __init__(self, due_s: float, callback: object) -> None:
        self.due_s = due_s
        self.is_live = True
        self._callback = callback

    def cancel(self) -> None:
        self.is_live = False

    def fire(self) -> None:
        self.is_live = False
        assert callable(self._callback)
        self._callback()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


@pytest.fixture
def silent() -> list[bool]:
    return []


def watch(silent: list[bool], limit_s: float = LIMIT_S) -> SilenceWatch:
    """A watch of a stream that has given a sign of life."""
    watching = SilenceWatch(limit_s, lambda: silent.append(True))
    watching.note_message()
    return watching


def test_a_first_sign_of_life_is_expected_sooner(loop: Loop, silent: list[bool]) -> None:
    watching = SilenceWatch(LIMIT_S, lambda: silent.append(watching.has_heard))
    with watching.running(None):
        loop.pass_(FIRST_SIGN_S)
        assert silent == []
        loop.pass_(FIRST_SIGN_S / TICKS)
    assert silent == [False]


def test_after_the_first_sign_the_limit_counts(loop: Loop, silent: list[bool]) -> None:
    watching = SilenceWatch(LIMIT_S, lambda: silent.append(watching.has_heard))
    with watching.running(None):
        loop.pass_(FIRST_SIGN_S)
        watching.note_message()
        loop.pass_(LIMIT_S)
        assert silent == []
        loop.pass_(TICK_S)
    assert silent == [True]


def test_silence_longer_than_the_limit_is_reported_once(loop: Loop, silent: list[bool]) -> None:
    with watch(silent).running(None):
        loop.pass_(LIMIT_S)
        assert silent == []
        loop.pass_(TICK_S)
        assert silent == [True]
        loop.pass_(10 * LIMIT_S)
    assert silent == [True]


def test_any_sign_of_life_restarts_the_limit(loop: Loop, silent: list[bool]) -> None:
    watching = watch(silent)
    with watching.running(None):
        for _ in range(10):
            loop.pass_(LIMIT_S / 2)
            watching.note_message()
    loop.pass_(10 * LIMIT_S)
    assert silent == []


def test_a_paused_flow_is_not_reported_as_silent(loop: Loop, silent: list[bool]) -> None:
    flow = Flow()
    with watch(silent).running(flow):
        flow.pause(loop)
        loop.pass_(10 * LIMIT_S)
        flow.resume(loop)
        loop.pass_(LIMIT_S)
        assert silent == []
        loop.pass_(TICK_S)
    assert silent == [True]


def test_the_limit_restarts_after_a_frozen_process(loop: Loop, silent: list[bool]) -> None:
    with watch(silent).running(None):
        loop.pass_(LIMIT_S - TICK_S)
        loop.sleep(10 * LIMIT_S)
        assert silent == []
        loop.pass_(LIMIT_S + TICK_S)
    assert silent == [True]


def test_without_a_limit_nothing_is_watched(loop: Loop, silent: list[bool]) -> None:
    with watch(silent, 0).running(None):
        loop.pass_(10 * LIMIT_S)
    assert silent == []
