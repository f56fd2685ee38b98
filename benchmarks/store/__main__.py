"""Measures the store on each of its engines, beside the engine's own client doing the same work in the same run.

    make bench-store
    make bench-store ARGS='--engines memory,sqlite'

The table has calls per second and latencies of the store. `x raw` is the store's rate as a multiple of the raw
engine's; 1.00 means that the store costs nothing. Compare the ratios, because absolute figures depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.measuring import compare, print_table
from benchmarks.store.deployments import DEPLOYMENTS, Deployment
from benchmarks.store.footprint import Footprint, footprint_of, print_footprints
from benchmarks.store.operations import CHAINS, FORKS, OPERATIONS, WRITES, Results, measure, print_results
from benchmarks.store.subjects import CHAIN_RECORDS, LONG_LINE, long_line
from benchmarks.store.wire import bench_wire

WIRE = "wire"  # the cost of the service and gRPC, listed beside the engines
ROUND_S = 0.06


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of one engine. `flatness` is the rate of forks from the longest source, as a multiple of the rate
    from the shortest."""

    results: Results
    flatness: float


def main() -> None:
    chosen = _parse_engines()
    print(f"{os.cpu_count()} cores; the disk takes {_sync_ms():.2f} ms to sync 4 KiB")
    engines: dict[str, Findings] = {}
    footprints: dict[str, Footprint] = {}
    for name in chosen:
        if name == WIRE:
            asyncio.run(bench_wire(ROUND_S))
            continue
        with DEPLOYMENTS[name]() as deployment:
            engines[deployment.name] = asyncio.run(_bench_engine(deployment))
        with DEPLOYMENTS[name]() as empty:
            footprints[empty.name] = asyncio.run(footprint_of(empty))
    if engines:
        _print_shapes(engines)
        print_footprints(footprints)


def _parse_engines() -> Sequence[str]:
    known = [*DEPLOYMENTS, WIRE]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(known), help=f"which, of {','.join(known)}")
    chosen: list[str] = parser.parse_args().engines.split(",")
    for name in set(chosen) - set(known):
        parser.error(f"there is no engine '{name}'; there are {', '.join(known)}")
    return chosen


async def _bench_engine(deployment: Deployment) -> Findings:
    """Measures all operations at the engine's safest durability, and writes at its other durability, too."""
    *others, safest = deployment.durabilities
    async with deployment.at(deployment.durabilities[0]) as (store, raw):
        await store.fill(LONG_LINE, long_line())
        await raw.fill(LONG_LINE, long_line()[:CHAIN_RECORDS])
    title = f"{deployment.name} beside {deployment.raw_name}, durability"
    async with deployment.at(safest) as (store, raw):
        results = await measure(store, raw, list(OPERATIONS), round_s=ROUND_S)
        flatness = await compare(
            partial(store.fork, max(FORKS)), partial(store.fork, min(FORKS)), at_once=1, round_s=3 * ROUND_S
        )
    print_results(f"{title} {safest}", results, ratio="x raw")
    for durability in others:
        async with deployment.at(durability) as (store, raw):
            writes = await measure(store, raw, WRITES, round_s=ROUND_S)
        print_results(f"{title} {durability}: what writes", writes, ratio="x raw")
    return Findings(results, flatness.ratio)


def _print_shapes(engines: Mapping[str, Findings]) -> None:
    """Prints the growth of costs of all engines together."""
    chains = [[name, *map(found.results.p50_ms, CHAINS.values())] for name, found in engines.items()]
    print_table("A chain against its depth: p50 ms, one at a time", ["", *map(str, CHAINS)], chains)
    forks = [
        [name, *map(found.results.p50_ms, FORKS.values()), f"{found.flatness:.2f}"] for name, found in engines.items()
    ]
    print_table(
        "A fork against the length of its source: p50 ms, one at a time; the rate of the longest over the shortest's",
        ["", *map(str, FORKS), "longest / shortest"],
        forks,
    )


def _sync_ms() -> float:
    """Measures one durable write that does not lengthen its file, on the disk of the engines."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(50):
            os.pwrite(file.fileno(), os.urandom(4096), 0)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - begun)
    return median(taken) * 1000


if __name__ == "__main__":
    main()
