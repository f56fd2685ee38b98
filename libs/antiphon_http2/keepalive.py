"""HTTP/2 keepalive: decides when to ping a silent peer, and when to give up its connection."""

from __future__ import annotations

from enum import Enum, auto

LATE_S = 1.0
"""A step that is later than this follows a stop of this process, or of its event loop. The answer to a ping may have
come meanwhile and be unread, so the timeout begins again."""


class Step(Enum):
    WAIT = auto()
    PING = auto()
    GIVE_UP = auto()


class Keepalive:
    """The keepalive of one connection. The owner calls `step` at the time `due_s`. All times are of one monotonic
    clock."""

    def __init__(self, interval_s: float, timeout_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._heard_s = now_s
        self._pinged_s: float | None = None
        self.due_s = now_s + interval_s

    def note_received(self, now_s: float) -> None:
        """Notes that the peer has sent something. This need not be the answer to a ping, which may come after much
        data."""
        self._heard_s = now_s
        self._pinged_s = None

    def silence_s(self, now_s: float) -> float:
        """The time since the peer has sent something."""
        return now_s - self._heard_s

    def step(self, now_s: float, *, has_calls: bool) -> Step:
        if self._pinged_s is not None:
            if now_s - self.due_s > LATE_S:
                self._pinged_s = now_s
            self.due_s = self._pinged_s + self._timeout_s
            return Step.GIVE_UP if now_s >= self.due_s else Step.WAIT
        self.due_s = self._heard_s + self._interval_s
        if now_s < self.due_s:
            return Step.WAIT
        if not has_calls:
            self.due_s = now_s + self._interval_s
            return Step.WAIT
        self._pinged_s = now_s
        self.due_s = now_s + self._timeout_s
        return Step.PING
