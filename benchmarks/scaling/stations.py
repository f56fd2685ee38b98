"""A station: one or several servers with one queue, first come first served."""

from __future__ import annotations

from collections.abc import Generator

import simpy


class Station:
    """A station with exact counts at any moment. `waits_s` has the wait of each call that was started."""

    def __init__(self, env: simpy.Environment, servers: int) -> None:
        self.waits_s: list[float] = []
        self.busy_s = 0.0
        self.served = 0
        self._env = env
        self._servers = simpy.Resource(env, capacity=servers)
        self._inside = 0
        self._inside_s = 0.0
        self._changed_s = env.now
        self._open: simpy.Event | None = None

    def serve(self, service_s: float) -> Generator[simpy.Event, None, None]:
        """Waits for a server and occupies it."""
        came_s = self._env.now
        self._count(1)
        try:
            while self._open is not None:
                yield self._open
            with self._servers.request() as turn:
                yield turn
                self.waits_s.append(self._env.now - came_s)
                yield self._env.timeout(service_s)
        finally:  # a caller may be interrupted
            self._count(-1)
        self.busy_s += service_s
        self.served += 1

    def close_for(self, seconds: float) -> Generator[simpy.Event, None, None]:
        """Starts no call for so many seconds, like a database that fails over."""
        self._open = self._env.event()
        yield self._env.timeout(seconds)
        opened, self._open = self._open, None
        opened.succeed()

    def mean_inside(self) -> float:
        """Returns the mean number of calls in the queue and in service so far."""
        self._count(0)
        return self._inside_s / self._env.now

    def _count(self, change: int) -> None:
        now = self._env.now
        self._inside_s += self._inside * (now - self._changed_s)
        self._changed_s = now
        self._inside += change
