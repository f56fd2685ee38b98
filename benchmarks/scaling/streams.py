"""Simulates streams through a pipeline of processes token by token: the delay of tokens, and the capacity of a core."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import simpy

from benchmarks.scaling.costs import Part
from benchmarks.scaling.event_loop import EventLoop, Pass

PACE_S = 0.02
TOKENS = 200
ENGINE_S = 0.05
"""The mean time until an engine's first token. The engine's queue is not simulated."""


@dataclass(slots=True)
class Seen:
    """The gaps and delays that clients measured, and the utilisation of each process."""

    gaps_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    """The times to first token, without the engine's own time."""
    tokens: int = 0
    seconds: float = 0.0
    busy: Sequence[float] = ()
    cpu_us_per_token: float = 0.0

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def percentile_ms(values_s: Sequence[float], percent: float) -> float:
    ordered = sorted(values_s)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)] * 1e3 if ordered else 0.0


def simulate(
    parts: Sequence[Part],
    streams: int,
    *,
    seconds: float,
    seed: int,
    pace_s: float = PACE_S,
    warm_up_s: float = TOKENS * PACE_S,
) -> Seen:
    """Simulates `streams` streams, each of which starts again after its end. `parts` are in the order in which tokens
    pass them: the translator and the edge, or the only process."""
    env = simpy.Environment()
    run = _Run(env, parts, random.Random(seed), pace_s, warm_up_s)
    for number in range(streams):
        env.process(run.stream(number, warm_up_s * number / streams))
    env.run(warm_up_s)
    before = [loop.busy_s for loop in run.loops]
    env.run(warm_up_s + seconds)
    busy_s = [loop.busy_s - earlier for loop, earlier in zip(run.loops, before, strict=True)]
    seen = run.seen
    seen.seconds, seen.busy = seconds, [each / seconds for each in busy_s]
    seen.cpu_us_per_token = sum(busy_s) / max(seen.tokens, 1) * 1e6
    return seen


class _Run:
    def __init__(
        self, env: simpy.Environment, parts: Sequence[Part], chance: random.Random, pace_s: float, warm_up_s: float
    ) -> None:
        self.seen = Seen()
        self.loops: list[EventLoop] = []
        self._env = env
        self._parts = parts
        self._chance = chance
        self._pace_s = pace_s
        self._warm_up_s = warm_up_s
        self._last_s: dict[int, float] = {}
        self._left: dict[int, int] = {}
        self._ended: dict[int, simpy.Event] = {}
        self._asked_s: dict[int, float] = {}
        on_tokens: Pass = self._to_client
        for part in reversed(parts):
            loop = EventLoop(env, part, on_tokens)
            self.loops.insert(0, loop)
            on_tokens = loop.tokens

    def stream(self, number: int, delay_s: float) -> Generator[simpy.Event, None, None]:
        yield self._env.timeout(delay_s)
        while True:
            yield self._env.process(self._turn(number))

    def _turn(self, number: int) -> Generator[simpy.Event, None, None]:
        env = self._env
        began_s = env.now
        for loop, part in zip(reversed(self.loops), reversed(self._parts), strict=True):
            yield loop.job(part.turn_ms / 1e3)
        engine_s = self._chance.expovariate(1 / ENGINE_S)
        self._asked_s[number] = began_s + engine_s
        self._left[number], self._ended[number] = TOKENS, env.event()
        self._last_s.pop(number, None)
        yield env.timeout(engine_s)
        for _ in range(TOKENS):
            self.loops[0].tokens(number, 1)
            yield env.timeout(self._pace_s)
        yield self._ended[number]

    def _to_client(self, number: int, count: int) -> None:
        now = self._env.now
        last_s = self._last_s.get(number)
        self._last_s[number] = now
        if now >= self._warm_up_s:
            if last_s is None:
                self.seen.first_s.append(now - self._asked_s[number])
            else:
                self.seen.gaps_s.append(now - last_s)
            self.seen.gaps_s += [0.0] * (count - 1)
            self.seen.tokens += count
        self._left[number] -= count
        if not self._left[number]:
            self._ended[number].succeed()
