"""Simulates a whole deployment turn by turn: sessions think and ask, and one zone is lost.

A large deployment is simulated as one of its equal shares. A client whose edge is lost retries after a delay, and its
turn starts again. A turn whose translator is lost resumes after its last token on another translator.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import simpy

from benchmarks.scaling.costs import Costs, Part
from benchmarks.scaling.sizing import PLAN, ZONES, Sizing, Workload
from benchmarks.scaling.stations import Station

SHARE_SESSIONS = 30_000
"""The number of sessions that are simulated of a large deployment: few enough for the simulation, and enough for
several processes in each zone."""
FAILOVER_S = 10.0
"""The assumed time until another node has taken over a lost database. PostgreSQL's and Redis's own times depend on
settings."""
RETRY_S = (0.5, 1.0)
"""The delay of a client's first retry, as in the OpenAI SDK."""


@dataclass
class Process:
    """An edge or a translator, and the turns that run on it."""

    zone: int
    turns: dict[int, simpy.Process] = field(default_factory=dict)
    is_alive: bool = True


@dataclass(slots=True)
class Report:
    """The events of a simulation. Times are in seconds of the simulation."""

    completed: int = 0
    begun_again: int = 0
    moved: int = 0
    begin_s: list[tuple[float, float]] = field(default_factory=list)
    """The time of each turn's request, and the time that the store took to begin the turn."""
    streams: list[tuple[float, float, float]] = field(default_factory=list)
    """For each second the time, and the utilisation of the median and of the busiest process, of edges and
    translators."""
    store_busy: float = 0.0
    database_busy: float = 0.0


class Fleet:
    """One share of a deployment. Zone 0 is lost at `fails_at_s`, if given. With `takes_database` the zone has the
    primary of the database, or a third of a cluster."""

    def __init__(
        self,
        sizing: Sizing,
        costs: Costs,
        workload: Workload,
        *,
        seed: int,
        fails_at_s: float | None = None,
        takes_database: bool = False,
    ) -> None:
        self.report = Report()
        self._env = simpy.Environment()
        self._chance = random.Random(seed)
        self._workload = workload
        share = min(1.0, SHARE_SESSIONS / sizing.step.sessions)
        self._sessions = round(sizing.step.sessions * share)
        self._edges = self._processes(sizing.edges, share)
        self._translators = self._processes(sizing.translators, share)
        self._stores = [Station(self._env, 1) for _ in range(max(ZONES, round(sizing.stores * share)))]
        masters = max(ZONES if sizing.step.backend == "cluster" else 1, round(sizing.database_cores / PLAN * share))
        self._databases = [Station(self._env, 1) for _ in range(masters)]
        backend = costs.backends[sizing.step.backend]
        self._store_s = (costs.rpc_ms + backend.store_ms) / 2e3
        self._database_s = backend.database_ms / 2e3
        self._stream_cores = (
            (self._edges, _stream_cores(costs.edge, workload)),
            (self._translators, _stream_cores(costs.translator, workload)),
        )
        self._fails_at_s = fails_at_s
        self._takes_database = takes_database

    def run(self, seconds: float) -> Report:
        env = self._env
        for _ in range(self._sessions):
            env.process(self._session())
        env.process(self._watch())
        if self._fails_at_s is not None:
            env.process(self._fail(self._fails_at_s))
        env.run(seconds)
        self.report.store_busy = sum(each.busy_s for each in self._stores) / seconds / len(self._stores)
        self.report.database_busy = sum(each.busy_s for each in self._databases) / seconds / len(self._databases)
        return self.report

    def _processes(self, count: int, share: float) -> Sequence[Process]:
        in_zone = max(1, round(count * share / ZONES))
        return [Process(number % ZONES) for number in range(in_zone * ZONES)]

    def _session(self) -> Generator[simpy.Event, None, None]:
        env, work = self._env, self._workload
        yield env.timeout(
            self._chance.expovariate(1 / work.think_s)
        )  # exponential thinking times have no memory, so the simulation starts in the steady state
        while True:
            while not (yield from self._turn()):
                self.report.begun_again += 1
                yield env.timeout(self._chance.uniform(*RETRY_S))
            self.report.completed += 1
            yield env.timeout(self._chance.expovariate(1 / work.think_s))

    def _turn(self) -> Generator[simpy.Event, None, bool]:
        """Runs a turn. Returns False if its edge was lost before the end."""
        edge = self._pick(self._edges)
        running = self._env.process(self._on_edge(edge))
        edge.turns[id(running)] = running
        ended = yield running
        edge.turns.pop(id(running), None)
        return bool(ended)

    def _on_edge(self, edge: Process) -> Generator[simpy.Event, None, bool]:
        env = self._env
        try:
            asked_s = env.now
            yield from self._call()
            self.report.begin_s.append((asked_s, env.now - asked_s))
            left_s = self._chance.expovariate(1 / self._workload.first_token_s)
            left_s += self._workload.tokens / self._workload.tokens_per_s
            while left_s > 0:
                left_s = yield from self._generate(left_s)
            yield from self._call()
        except simpy.Interrupt:
            return False
        return True

    def _generate(self, left_s: float) -> Generator[simpy.Event, None, float]:
        """Generates a turn. Returns the seconds that are left to generate when the translator is lost, else 0."""
        translator = self._pick(self._translators)
        began_s = self._env.now
        part = self._env.process(self._on_translator(left_s))
        translator.turns[id(part)] = part
        try:
            ended = yield part
        finally:
            translator.turns.pop(id(part), None)
        if ended:
            return 0.0
        self.report.moved += 1
        return max(left_s - (self._env.now - began_s), 1e-6)

    def _on_translator(self, seconds: float) -> Generator[simpy.Event, None, bool]:
        try:
            yield self._env.timeout(seconds)
        except simpy.Interrupt:
            return False
        return True

    def _call(self) -> Generator[simpy.Event, None, None]:
        """Simulates one RPC to the store and its step in the database."""
        yield from self._chance.choice(self._stores).serve(self._store_s)
        if self._database_s:
            yield from self._chance.choice(self._databases).serve(self._database_s)

    def _pick(self, processes: Sequence[Process]) -> Process:
        """Picks a process evenly without regard to load, as kube-proxy and round robin do."""
        return self._chance.choice([each for each in processes if each.is_alive])

    def _fail(self, at_s: float) -> Generator[simpy.Event, None, None]:
        """Removes zone 0: its edges, translators and stores, and its part of the database, which fails over."""
        yield self._env.timeout(at_s)
        for station in self._databases[::ZONES] if self._takes_database else ():
            self._env.process(station.close_for(FAILOVER_S))
        del self._stores[: len(self._stores) // ZONES]
        for processes in (self._translators, self._edges):
            for each in processes:
                if each.zone == 0:
                    each.is_alive = False
                    for turn in list(each.turns.values()):
                        if turn.is_alive:
                            turn.interrupt()

    def _watch(self) -> Generator[simpy.Event, None, None]:
        while True:
            yield self._env.timeout(1.0)
            used = sorted(
                len(each.turns) * stream_cores
                for processes, stream_cores in self._stream_cores
                for each in processes
                if each.is_alive
            )
            self.report.streams.append((self._env.now, used[len(used) // 2], used[-1]))


def _stream_cores(part: Part, workload: Workload) -> float:
    """Returns the share of a core that a stream uses if its tokens arrive one by one."""
    return workload.tokens_per_s * part.paced_us / 1e6 + part.turn_ms / 1e3 / workload.turn_s
