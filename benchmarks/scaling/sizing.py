"""Computes the processes and cores of each part for a number of sessions, from the measured costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from benchmarks.scaling.costs import Costs

PLAN = 0.6
"""The planned utilisation of a core. After the loss of one of three zones the others are at 0.9."""
ZONES = 3
SESSION_TURNS = 20
"""The number of turns of an active session, whose responses a store keeps in memory."""
RETENTION_DAYS = 30
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Workload:
    """The assumed, not measured, behaviour of sessions: each session thinks, asks, and is answered."""

    think_s: float = 60.0
    tokens: int = 200
    tokens_per_s: float = 50.0
    first_token_s: float = 0.3

    @property
    def turn_s(self) -> float:
        return self.first_token_s + self.tokens / self.tokens_per_s

    @property
    def cycle_s(self) -> float:
        return self.think_s + self.turn_s

    def turns_per_s(self, sessions: float) -> float:
        return sessions / self.cycle_s

    def streams(self, sessions: float) -> float:
        return self.turns_per_s(sessions) * self.turn_s

    def tokens_in_all_per_s(self, sessions: float) -> float:
        return self.turns_per_s(sessions) * self.tokens


@dataclass(frozen=True, slots=True)
class Step:
    """A number of sessions, and the backend for that size."""

    sessions: int
    backend: str
    label: str
    copies: int
    """The number of copies of each response."""
    is_split: bool = True


STEPS: Sequence[Step] = (
    Step(100, "sqlite", "SQLite", 1, is_split=False),
    Step(1_000, "sqlite", "SQLite", 1, is_split=False),
    Step(10_000, "postgres", "PostgreSQL", 2),
    Step(100_000, "postgres", "PostgreSQL, hash partitions", 2),
    Step(1_000_000, "cluster", "Redis Cluster, cold responses in object storage", 2),
)


@dataclass(frozen=True, slots=True)
class Sizing:
    """The resources that a step needs. Cores are busy ones; processes are planned at PLAN of a core each."""

    step: Step
    streams: float
    turns_per_s: float
    tokens_per_s: float
    edge_cores: float
    translator_cores: float
    store_cores: float
    database_cores: float
    edges: int
    translators: int
    stores: int
    memory_gb: float
    """The memory of edges, translators and stores."""
    hot_gb: float
    """The size of the active sessions, with all copies."""
    grown_gb_per_day: float
    """The growth of one copy."""


def size(step: Step, costs: Costs, workload: Workload) -> Sizing:
    turns, tokens = workload.turns_per_s(step.sessions), workload.tokens_in_all_per_s(step.sessions)
    backend = costs.backends[step.backend]
    parts = (costs.edge, costs.translator) if step.is_split else (costs.one_process,)
    cores = [tokens * part.paced_us / 1e6 + turns * part.turn_ms / 1e3 for part in parts]
    store_cores = turns * (costs.rpc_ms + backend.store_ms) / 1e3 if step.is_split else 0.0
    edges, translators = processes(cores[0], step), processes(cores[1], step) if step.is_split else 0
    stores = processes(store_cores, step) if step.is_split else 0
    streams = workload.streams(step.sessions)
    memory_mb = (edges + translators + stores) * costs.process_mb + streams * costs.stream_kb / 1024
    return Sizing(
        step=step,
        streams=streams,
        turns_per_s=turns,
        tokens_per_s=tokens,
        edge_cores=cores[0],
        translator_cores=cores[1] if step.is_split else 0.0,
        store_cores=store_cores,
        database_cores=turns * backend.database_ms / 1e3,
        edges=edges,
        translators=translators,
        stores=stores,
        memory_gb=memory_mb / 1024,
        hot_gb=step.sessions * SESSION_TURNS * backend.response_bytes * step.copies / 1e9,
        grown_gb_per_day=turns * DAY_S * backend.response_bytes / 1e9,
    )


def processes(cores: float, step: Step) -> int:
    """Returns the number of processes that stay below PLAN, equal in each zone, or 1 if nothing is split."""
    needed = ceil(cores / PLAN)
    return max(ZONES, ceil(needed / ZONES) * ZONES) if step.is_split else max(1, needed)


@dataclass(frozen=True, slots=True)
class Limit:
    """The number of sessions at which one resource is used up."""

    what: str
    sessions: float


def limits(backend: str, costs: Costs, workload: Workload, *, cores: int, space_gb: float) -> Sequence[Limit]:
    """Returns the limits of one backend, lowest first. `space_gb` is the disk space of one copy."""
    per_session = workload.turns_per_s(1)
    found = costs.backends[backend]
    kept_bytes = per_session * DAY_S * RETENTION_DAYS * found.response_bytes
    store_cores = per_session * (costs.rpc_ms + found.store_ms) / 1e3
    reached = [
        Limit(f"one store process ({PLAN:.0%} of a core)", PLAN / store_cores),
        Limit(f"space: {space_gb:,.0f} GB for {RETENTION_DAYS} days", space_gb * 1e9 / kept_bytes),
    ]
    if found.database_ms > 0:
        busy = PLAN * cores
        name = f"database: {cores} core{'s' * (cores > 1)} at {PLAN:.0%}"
        reached.append(Limit(name, busy / (per_session * found.database_ms / 1e3)))
    return sorted(reached, key=lambda limit: limit.sessions)
