"""A process, simulated by its event loop: each iteration serves the work that was ready at its start.

One read serves all waiting tokens of a stream and costs hardly more than a read of one token. So a late loop catches
up, to a limit: the gap between two tokens is then the duration of an iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import simpy

from benchmarks.scaling.costs import Part

Pass = Callable[[int, int], None]
"""A callback that gets a stream's number and the number of its new tokens."""


class EventLoop:
    """The process of one part. `on_tokens` gets the tokens of each read when the read has been served."""

    def __init__(self, env: simpy.Environment, part: Part, on_tokens: Pass) -> None:
        self.busy_s = 0.0
        self._env = env
        self._part = part
        self._on_tokens = on_tokens
        self._tokens: dict[int, int] = {}
        self._jobs: list[tuple[float, simpy.Event]] = []
        self._wake = env.event()
        env.process(self._run())

    def tokens(self, stream: int, count: int) -> None:
        """Adds tokens that can be read."""
        self._tokens[stream] = self._tokens.get(stream, 0) + count
        self._rouse()

    def job(self, seconds: float) -> simpy.Event:
        """Adds other work, such as the start of a turn. Returns the event of its end."""
        done = self._env.event()
        self._jobs.append((seconds, done))
        self._rouse()
        return done

    def _rouse(self) -> None:
        if not self._wake.triggered:
            self._wake.succeed()

    def _run(self) -> Generator[simpy.Event, None, None]:
        while True:
            yield self._wake
            self._wake = self._env.event()
            while self._tokens or self._jobs:
                tokens, self._tokens = self._tokens, {}
                jobs, self._jobs = self._jobs, []
                for seconds, done in jobs:
                    yield self._busy(seconds)
                    done.succeed()
                for stream, count in tokens.items():
                    yield self._busy((self._part.read_us + count * self._part.token_us) / 1e6)
                    self._on_tokens(stream, count)

    def _busy(self, seconds: float) -> simpy.Timeout:
        self.busy_s += seconds
        return self._env.timeout(seconds)
