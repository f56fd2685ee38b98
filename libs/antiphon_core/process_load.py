"""The load of one process: its share of memory in use, and the standing lag of its event loop.

A loop that was blocked once has caught up at the next measurement. A loop that is late several times in a row is
overloaded (as in CoDel's standing queue), and `lag_s` is this lag.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from antiphon_core import free_memory
from antiphon_core.free_memory import FreeMemory
from antiphon_core.loop_lag import PROCESS, LoopLag

MEASURED_EVERY_S = 0.5
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class ProcessLoad:
    """The load of this process. `memory_limit_bytes` of 0 is the limit of its container, or the machine's memory."""

    def __init__(
        self,
        *,
        memory_limit_bytes: int = 0,
        lag: LoopLag = PROCESS,
        used_bytes: Callable[[], int] | None = None,
        free: FreeMemory = free_memory.PROCESS,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit_bytes = memory_limit_bytes or available_bytes()
        self._lag = lag
        self._used_bytes = used_bytes or resident_bytes
        self._free = free
        self._now_s = now_s
        self._share = 0.0
        self._measured_s = float("-inf")

    @property
    def lag_s(self) -> float:
        """The standing lag of the event loop; 0 or little if it has caught up."""
        return self._lag.standing_s

    async def uses_more_than(self, share: float) -> bool:
        """Whether the process uses this share of its memory, also after it has returned what is free. Python and the C
        library keep the memory of a burst: without this, a burst of some seconds would stop turns for ever."""
        if self.memory_share < share:
            return False
        if await self._free.give_back(lambda: self._measure() < share):
            self._measure()
        return self.memory_share >= share

    @property
    def memory_share(self) -> float:
        """The part of the limit that is in use; measured twice a second."""
        if self._now_s() - self._measured_s >= MEASURED_EVERY_S:
            self._measure()
        return self._share

    def _measure(self) -> float:
        self._measured_s = self._now_s()
        self._share = self._used_bytes() / self._limit_bytes
        return self._share


def bytes_for_turns(memory_limit_bytes: int = 0) -> int:
    """How many bytes of requests and histories the turns of a process may hold: a tenth of its memory, since a turn
    takes 3.2 times its bytes at an edge and as much again at a translator, which may share the process."""
    return (memory_limit_bytes or available_bytes()) // 10


def resident_bytes() -> int:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE_BYTES


def available_bytes(limits: tuple[Path, ...] = _CGROUP_LIMITS) -> int:
    """The memory that this process may use: its container's, or the machine's."""
    machine = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    for path in limits:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        return min(int(text), machine) if text.isdecimal() else machine
    return machine
