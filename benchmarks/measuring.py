"""Compares the time of two implementations on a machine that is never idle, and prints tables of the results.

Rounds of both alternate, so that other load on the machine affects both. The ratio is the median of the ratios of the
rounds. The arguments of a call are made before the clock starts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

Call = Callable[[], Awaitable[object]]
Prepare = Callable[[], Call]  # makes the arguments of one call, and returns the call

ROUNDS = 5
ROUNDS_MIN = 3
SLOWNESS_MAX = 4  # if a round takes so many times as long as planned, fewer rounds follow
CALLS_MAX = 5_000  # in one round: each call is prepared, and its written rows stay
CALLS_EACH_MIN = 8  # of each caller in one round: with two, the last callers would mostly wait for each other


@dataclass(frozen=True, slots=True)
class Timing:
    """The latency of each call, and the time of all calls together."""

    latencies_s: Sequence[float]
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.latencies_s) / self.elapsed_s

    def percentile_ms(self, percent: int) -> float:
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)] * 1000


@dataclass(frozen=True, slots=True)
class Comparison:
    """A subject beside its baseline. `ratio` is the subject's rate as a multiple of the baseline's."""

    subject: Timing
    baseline: Timing
    ratio: float


async def compare(subject: Prepare, baseline: Prepare, *, at_once: int, round_s: float) -> Comparison:
    """Measures both in turns, `at_once` calls at a time. A round takes about `round_s` seconds; if calls are too slow
    for that, there are fewer rounds."""
    subject_calls = await _calls_in(subject, at_once, round_s)
    baseline_calls = await _calls_in(baseline, at_once, round_s)
    subjects: list[Timing] = []
    baselines: list[Timing] = []
    end = time.perf_counter() + ROUNDS * round_s * SLOWNESS_MAX
    while len(subjects) < ROUNDS_MIN or (len(subjects) < ROUNDS and time.perf_counter() < end):
        subjects.append(await time_calls(subject, subject_calls, at_once))
        baselines.append(await time_calls(baseline, baseline_calls, at_once))
    ratios = [ours.rate / theirs.rate for ours, theirs in zip(subjects, baselines, strict=True)]
    return Comparison(_together(subjects), _together(baselines), median(ratios))


async def time_calls(prepare: Prepare, count: int, at_once: int) -> Timing:
    """Makes `count` calls by `at_once` callers, each of which waits for an answer before its next call."""
    calls = iter([prepare() for _ in range(count)])
    latencies: list[float] = []
    begun = time.perf_counter()
    await asyncio.gather(*(_work(calls, latencies) for _ in range(at_once)))
    return Timing(latencies, time.perf_counter() - begun)


async def _work(calls: Iterator[Call], latencies: list[float]) -> None:
    for call in calls:
        begun = time.perf_counter()
        await call()
        latencies.append(time.perf_counter() - begun)


async def _calls_in(prepare: Prepare, at_once: int, round_s: float) -> int:
    """Returns the number of calls that fill a round, at least CALLS_EACH_MIN for each caller. The trial calls are the
    warm-up."""
    timing = await time_calls(prepare, 1, 1)
    count = at_once
    while timing.elapsed_s < round_s / 4 and count < CALLS_MAX:
        timing = await time_calls(prepare, count, at_once)
        count *= 4
    return max(CALLS_EACH_MIN * at_once, min(int(timing.rate * round_s), CALLS_MAX))


def _together(rounds: Sequence[Timing]) -> Timing:
    latencies = list(chain.from_iterable(each.latencies_s for each in rounds))
    return Timing(latencies, sum(each.elapsed_s for each in rounds))


@dataclass(frozen=True, slots=True)
class Work:
    """The least processor time of a call. `ratio` is that time as a multiple of the baseline's."""

    cpu_s: float
    ratio: float


def work(subject: Callable[[], object], baseline: Callable[[], object], *, rounds: int = ROUNDS) -> Work:
    """Measures both in turns, in processor time, which excludes other load on the machine. The first round is the
    warm-up."""
    subjects: list[float] = []
    baselines: list[float] = []
    for _ in range(rounds + 1):
        subjects.append(cpu_s(subject))
        baselines.append(cpu_s(baseline))
    ratios = [ours / theirs for ours, theirs in zip(subjects[1:], baselines[1:], strict=True)]
    return Work(min(subjects), median(ratios))


def cpu_s(call: Callable[[], object]) -> float:
    """Returns the processor time of one call."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table with names aligned left and numbers aligned right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    print(f"\n{title}\n")
    for row in (headings, *rows):
        name, *numbers = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + row[0].ljust(len(name)), *numbers, sep="  ", flush=True)


def milliseconds(value: float) -> str:
    """Formats a number with three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
