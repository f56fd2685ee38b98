"""Measures streams of token ids from Triton, beside the least cost of reading them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from antiphon_core.jsons import loads
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.rows import IDS_AT_ONCE
from benchmarks.gateway.subjects import Column, Route

TOKENS = 200
BATCHED_TOKENS = 801  # fifty messages of 16 ids, and the end id
_COUNTS = {1: 20, 16: 64, 64: 64}
_FLOOR_STREAMS = 128  # in one round of the lean reader, which is fast


async def full_speed(bench: Bench) -> None:
    for at_once in IDS_AT_ONCE:
        floor = await read_floor(bench, "full_speed", at_once, TOKENS, repeat=_FLOOR_STREAMS // at_once)
        bench.board.put(f"ids-{at_once}-cpu", Column.ENGINE, floor["cpu_us_per_message"])
        samples = await bench.compare(bench.antiphons(), Route.IDS, TOKENS, at_once=at_once, count=_COUNTS[at_once])
        bench.put_cpu(f"ids-{at_once}-cpu", samples)


async def paced(bench: Bench) -> None:
    for at_once in IDS_AT_ONCE:
        floor = await read_floor(bench, "paced", at_once, TOKENS, rounds=1)
        bench.board.put(f"ids-paced-{at_once}-cpu", Column.ENGINE, floor["cpu_us_per_message"])
        if at_once == IDS_AT_ONCE[-1]:
            written = await read_floor(bench, "paced", at_once, TOKENS, rounds=1, writes=True)
            bench.board.put("ids-paced-written", Column.ENGINE, written["cpu_us_per_message"])
        samples = await bench.compare(
            bench.antiphons(),
            Route.IDS,
            TOKENS,
            is_paced=True,
            at_once=at_once,
            count=at_once,
            rounds=1,
        )
        bench.put_cpu(f"ids-paced-{at_once}-cpu", samples)
    _put_hop(bench, f"ids-paced-{IDS_AT_ONCE[-1]}-cpu")


def _put_hop(bench: Bench, key: str) -> None:
    """Records what the split costs beyond one process."""
    one, split = (bench.board.values.get((key, column)) for column in (Column.ONE, Column.SPLIT))
    if one is not None and split is not None:
        bench.board.put("ids-paced-hop", Column.SPLIT, split - one)


async def batched(bench: Bench) -> None:
    samples = await bench.compare(
        bench.antiphons(),
        Route.BATCHED_IDS,
        BATCHED_TOKENS,
        at_once=64,
        count=64,
    )
    bench.put_cpu("ids-batched", samples)


async def read_floor(
    bench: Bench, model: str, streams: int, tokens: int, *, repeat: int = 1, rounds: int = 3, writes: bool = False
) -> Mapping[str, float]:
    """Measures a lean reader on equal streams, in its own process. With `writes` it passes them on to clients."""
    load = f"--streams {streams} --tokens {tokens} --repeat {repeat} --rounds {rounds}{' --writes' if writes else ''}"
    options = f"--port {bench.engines.triton_port} --model {model} {load}"
    command = [sys.executable, "-m", "benchmarks.gateway.floor", *options.split()]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    found: Mapping[str, float] = loads(printed)
    return found
