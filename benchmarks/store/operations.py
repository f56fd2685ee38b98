"""The operations that are measured on each engine, and the tables of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.measuring import Comparison, Prepare, compare, milliseconds, print_table
from benchmarks.store.sides import Side

AT_ONCE = (1, 64)
CHAIN_DEPTHS = (1, 10, 100, 1_000)
FORK_LENGTHS = (10, 100, 1_000, 10_000)

Operation = Callable[[Side], Prepare]


def chain_of(depth: int) -> Operation:
    return lambda side: partial(side.chain, depth)


def fork_of(length: int) -> Operation:
    return lambda side: partial(side.fork, length)


CHAINS = {depth: f"chain of {depth:,}" for depth in CHAIN_DEPTHS}
DEEPEST = CHAINS[1_000]  # one call at a time only: many answers of 2 MB at once measure memory more than the store
FORKS = {length: f"fork of {length:,}" for length in FORK_LENGTHS}
OPERATIONS: Mapping[str, Operation] = {
    "put": lambda side: side.put,
    "get": lambda side: side.get,
    **{name: chain_of(depth) for depth, name in CHAINS.items()},
    **{name: fork_of(length) for length, name in FORKS.items()},
    "turn": lambda side: side.turn,
}
WRITES = ("put", FORKS[10], "turn")


@dataclass(frozen=True, slots=True)
class Results:
    """The results by operation and number of callers."""

    found: Mapping[tuple[str, int], Comparison]

    def p50_ms(self, name: str) -> str:
        """The median latency of the store with one caller."""
        return milliseconds(self.found[name, 1].subject.percentile_ms(50))


async def measure(subject: Side, baseline: Side, names: Sequence[str], *, round_s: float) -> Results:
    found = {}
    for name in names:
        operation = OPERATIONS[name]
        for at_once in AT_ONCE if name != DEEPEST else AT_ONCE[:1]:
            found[name, at_once] = await compare(
                operation(subject), operation(baseline), at_once=at_once, round_s=round_s
            )
    return Results(found)


def print_results(title: str, results: Results, *, ratio: str) -> None:
    """Prints a row for each operation: rate, latencies and ratio, for each number of callers."""
    headings = [""]
    for at_once in AT_ONCE:
        headings += [f"{at_once} at once: calls/s", "p50 ms", "p99 ms", ratio]
    names = dict.fromkeys(name for name, _at_once in results.found)
    rows = [
        [name, *(cell for at_once in AT_ONCE for cell in _cells(results.found.get((name, at_once))))] for name in names
    ]
    print_table(title, headings, rows)


def _cells(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return ["-"] * 4
    timing = comparison.subject
    return [
        f"{timing.rate:,.0f}",
        milliseconds(timing.percentile_ms(50)),
        milliseconds(timing.percentile_ms(99)),
        f"{comparison.ratio:.2f}",
    ]
