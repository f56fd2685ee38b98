"""Measures the processor time of a turn on each backend, in the store's process and in the database's processes.

The backend runs in this process, as in a store, and the database servers are its children. 64 callers begin and end
turns of a 2 KB response. The cost of gRPC is not included: `make bench-gateway` measures it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

import psutil

from benchmarks.measuring import time_calls
from benchmarks.store.deployments import DEPLOYMENTS

AT_ONCE = 64
TURNS = 3_000
BACKENDS = ("sqlite", "postgres", "redis", "cluster")


def measured() -> Mapping[str, float]:
    """Returns the milliseconds of processor time per turn, by the keys of costs.json."""
    found: dict[str, float] = {}
    for name in BACKENDS:
        with DEPLOYMENTS[name]() as deployment:

            async def run() -> tuple[float, float]:
                async with deployment.at(deployment.durabilities[-1]) as (store, _raw):
                    await time_calls(store.turn, TURNS // 10, AT_ONCE)
                    before = _cpu_s()
                    await time_calls(store.turn, TURNS, AT_ONCE)
                    after = _cpu_s()
                return after[0] - before[0], after[1] - before[1]

            client_s, server_s = asyncio.run(run())
        found[f"store_{name}_turn_ms"] = client_s / TURNS * 1e3
        found[f"database_{name}_turn_ms"] = server_s / TURNS * 1e3
    return found


def _cpu_s() -> tuple[float, float]:
    """Returns the processor time of this process, and of all its descendants."""
    own = psutil.Process(os.getpid())
    mine = own.cpu_times()
    theirs = 0.0
    for child in own.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        theirs += times.user + times.system
    return mine.user + mine.system, theirs
