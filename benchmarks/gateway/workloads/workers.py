"""Measures several worker processes of one `antiphon serve`: their work per second of processor time, and its
distribution."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import psutil

from benchmarks.gateway import load
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.load import Sample
from benchmarks.gateway.processes import cpu_s
from benchmarks.gateway.requests import turn
from benchmarks.gateway.subjects import Column, Route, Subject

WORKERS = 2
AT_ONCE = 64
COUNT = 320
DELTAS = 200


async def workers(bench: Bench) -> None:
    if Column.ONE not in bench.columns:
        return
    if not _has_option("--workers"):
        bench.board.problems.append("workers: not available, `antiphon serve` has no --workers")
        return
    several = bench.systems.one(f"--workers={WORKERS}")
    rates: dict[str, list[float]] = {"workers-1": [], "workers-2": []}
    shares = []
    for _ in range(bench.rounds):
        rates["workers-1"].append(_rate(await _streams(bench, bench.one)))
        before = _cpu_by_process(several)
        rates["workers-2"].append(_rate(await _streams(bench, several)))
        used = sorted(after - before.get(pid, 0) for pid, after in _cpu_by_process(several).items())
        shares.append(_share(used))
    for key, found in rates.items():
        bench.board.put(key, Column.ONE, max(found))
    bench.board.put("workers-share", Column.ONE, min(shares))


def _has_option(option: str) -> bool:
    command = [sys.executable, "-m", "antiphon", "serve", "--help"]
    return option in subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def _streams(bench: Bench, subject: Subject) -> Sample:
    request = turn(subject, Route.CHAT, DELTAS)
    sample = await load.streams(subject, request, tokens=DELTAS, at_once=AT_ONCE, count=COUNT)
    bench.note_errors(subject, sample)
    return sample


def _rate(sample: Sample) -> float:
    """Returns thousands of deltas per second of processor time."""
    return 1e3 / sample.cpu_us_per_token


def _cpu_by_process(subject: Subject) -> dict[int, float]:
    """Returns the processor time of each direct child of the started process."""
    (pid,) = subject.parts.values()
    return {child.pid: cpu_s(child.pid) for child in psutil.Process(pid).children()}


def _share(used_s: Sequence[float]) -> float:
    """Returns the time of the busiest process as a multiple of the time of the second busiest."""
    return used_s[-1] / used_s[-2] if len(used_s) > 1 and used_s[-2] else float("inf")
