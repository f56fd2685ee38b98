"""Timing two things against each other on a machine that is never quite idle, and tables of what came out.

Rounds of the one and the other take turns, so that whatever else the machine does hits both; the ratio is the median of
the rounds' own. What a call needs is made before the clock starts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

Call = Callable[[], Awaitable[object]]
Prepare = Callable[[], Call]  # makes what one call needs, and the call

ROUNDS = 5
ROUNDS_MIN = 3
SLOWNESS_MAX = 4  # times as long as planned: then there are fewer rounds
CALLS_MAX = 5_000  # in one round: each is prepared, and what it wrote stays
CALLS_EACH_MIN = 8  # of each caller in one round: with two, what counts is how the last callers wait for each other


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
    """One thing beside its baseline. `ratio` is how many times the baseline's rate it has."""

    subject: Timing
    baseline: Timing
    ratio: float


async def compare(subject: Prepare, baseline: Prepare, *, at_once: int, round_s: float) -> Comparison:
    """Both in turns, `at_once` calls at a time; a round takes about `round_s`. Where calls are so slow that it takes
    much longer there are fewer rounds."""
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
    """So many calls, made by `at_once` callers that each wait for an answer before they ask again."""
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
    """How many calls fill a round, at least some for each caller. Finding out warms everything up."""
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
    """Both in turns, in seconds of the processor: what else runs on the machine does not count. The first round warms
    everything up."""
    subjects: list[float] = []
    baselines: list[float] = []
    for _ in range(rounds + 1):
        subjects.append(cpu_s(subject))
        baselines.append(cpu_s(baseline))
    ratios = [ours / theirs for ours, theirs in zip(subjects[1:], baselines[1:], strict=True)]
    return Work(min(subjects), median(ratios))


def cpu_s(call: Callable[[], object]) -> float:
    """The processor time of one call."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    print(f"\n{title}\n")
    for row in (headings, *rows):
        name, *numbers = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + row[0].ljust(len(name)), *numbers, sep="  ", flush=True)


def milliseconds(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
