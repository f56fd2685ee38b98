"""The context of all workloads: the board, and the subjects, which start when the first workload needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from benchmarks.gateway import load
from benchmarks.gateway.antiphon_systems import Systems
from benchmarks.gateway.board import Board
from benchmarks.gateway.engines import Engines
from benchmarks.gateway.flame_graphs import FlameGraphs
from benchmarks.gateway.load import Sample
from benchmarks.gateway.requests import turn
from benchmarks.gateway.subjects import Column, Route, Subject

ROUNDS = 3
_WARM_AT_ONCE = 16


@dataclass
class Bench:
    """One run of the bench."""

    engines: Engines
    systems: Systems
    peer: Subject | None
    columns: frozenset[Column]
    """The columns that are measured."""
    graphs: FlameGraphs | None = None
    rounds: int = ROUNDS
    chain_limit_s: float = 30
    """The time limit for a chain of turns to reach the depth at which it is measured."""
    board: Board = field(default_factory=Board)

    @cached_property
    def one(self) -> Subject:
        return self.systems.one()

    @cached_property
    def split(self) -> Subject:
        return self.systems.split()

    @cached_property
    def split_with_tls(self) -> Subject:
        return self.systems.split(with_tls=True)

    def antiphons(self) -> list[Subject]:
        """Antiphon in one process, and split."""
        wanted = []
        if Column.ONE in self.columns:
            wanted.append(self.one)
        if Column.SPLIT in self.columns:
            wanted.append(self.split)
        return wanted

    def gateways(self) -> list[Subject]:
        """All subjects that serve the Responses API, the peer first."""
        peers = [self.peer] if self.peer is not None and Column.PEER in self.columns else []
        return [*peers, *self.antiphons()]

    async def compare(
        self,
        subjects: Sequence[Subject],
        route: Route,
        tokens: int,
        *,
        at_once: int,
        count: int,
        is_paced: bool = False,
        rounds: int | None = None,
    ) -> Mapping[Column, Sequence[Sample]]:
        """Runs equal streams with each subject in turn for some rounds, after some streams as warm-up."""
        samples: dict[Column, list[Sample]] = {subject.column: [] for subject in subjects}
        for subject in subjects:
            await self.warm_up(subject, route, tokens, min(at_once, _WARM_AT_ONCE))
        for _ in range(rounds or self.rounds):
            for subject in subjects:
                request = turn(subject, route, tokens, is_paced=is_paced)
                sample = await load.streams(subject, request, tokens=tokens, at_once=at_once, count=count)
                self.note_errors(subject, sample)
                samples[subject.column].append(sample)
        return samples

    async def warm_up(self, subject: Subject, route: Route, tokens: int, at_once: int) -> None:
        """Runs streams at full speed without recording them."""
        request = turn(subject, route, tokens)
        await load.streams(subject, request, tokens=tokens, at_once=at_once, count=at_once)

    def put_least(
        self, key: str, samples: Mapping[Column, Sequence[Sample]], measure: Callable[[Sample], float]
    ) -> None:
        """Records the best round of each subject."""
        for column, rounds in samples.items():
            self.board.put(key, column, min(map(measure, rounds)))

    def put_cpu(self, key: str, samples: Mapping[Column, Sequence[Sample]], *, scale: float = 1) -> None:
        """Records processor time per token in the best round, for subjects whose processes are known."""
        for column, rounds in samples.items():
            best = min(rounds, key=lambda sample: sample.cpu_us_per_token)
            used = {part: cpu_s / best.tokens * 1e6 * scale for part, cpu_s in best.usage.cpu_s.items()}
            if used:
                self.board.put(key, column, sum(used.values()))
            if len(used) > 1:
                self.board.parts[key, column] = used

    def note_errors(self, subject: Subject, sample: Sample) -> None:
        if sample.errors:
            first = " ".join(sample.errors[0].split())
            asked = len(sample.outcomes)
            self.board.problems.append(f"{subject.column}: {len(sample.errors)} of {asked} failed, first: {first}")
