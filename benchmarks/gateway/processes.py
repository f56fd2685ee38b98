"""Processor time, memory and CPU affinity of process trees."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import psutil

SAMPLE_S = 0.25
_MIB = 2**20


def tree(pid: int) -> Iterator[psutil.Process]:
    """Yields a process and all its descendants."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        yield root
        yield from root.children(recursive=True)


def cpu_s(pid: int) -> float:
    """Returns the processor time of a process tree so far."""
    total = 0.0
    for process in tree(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def memory_mb(pid: int) -> float:
    """Returns the resident memory of a process tree."""
    return _resident_mb(tree(pid))


def _resident_mb(processes: Iterable[psutil.Process]) -> float:
    total = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total / _MIB


def keep_on_cores(pid: int, cores: int) -> None:
    """Restricts a process to that many cores, with all threads that it has or starts."""
    available = sorted(os.sched_getaffinity(0))
    for thread in psutil.Process(pid).threads():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread.id, available[:cores])


@dataclass(slots=True)
class Usage:
    """The processor time and memory that the processes of a subject used during a measurement."""

    cpu_s: dict[str, float] = field(default_factory=dict)
    """Processor time by part."""
    memory_before_mb: float = 0
    memory_most_mb: float = 0
    memory_after_mb: float = 0

    @property
    def total_cpu_s(self) -> float:
        return sum(self.cpu_s.values())


@asynccontextmanager
async def measured(parts: Mapping[str, int]) -> AsyncIterator[Usage]:
    """Measures the processes during a `with` block. The usage is complete when the block has ended."""
    usage = Usage(memory_before_mb=sum(map(memory_mb, parts.values())))
    usage.memory_most_mb = usage.memory_before_mb
    sampler = asyncio.create_task(_sample(usage, parts))
    before = {name: cpu_s(pid) for name, pid in parts.items()}
    try:
        yield usage
    finally:
        usage.cpu_s = {name: cpu_s(pid) - before[name] for name, pid in parts.items()}
        sampler.cancel()
        usage.memory_after_mb = sum(map(memory_mb, parts.values()))
        usage.memory_most_mb = max(usage.memory_most_mb, usage.memory_after_mb)


async def _sample(usage: Usage, parts: Mapping[str, int]) -> None:
    """Samples the known processes. A search through all processes of the machine takes 10 ms, in which the load of this
    process would stop."""
    processes = [process for pid in parts.values() for process in tree(pid)]
    while True:
        await asyncio.sleep(SAMPLE_S)
        usage.memory_most_mb = max(usage.memory_most_mb, _resident_mb(processes))
