"""Measures the memory of one process with one tokenizer: idle, after many streams, and during a very long stream."""

from __future__ import annotations

from benchmarks.gateway import load
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.load import Sample
from benchmarks.gateway.requests import turn
from benchmarks.gateway.subjects import Column, Route, Subject

WARM_COUNT = 2_000
COUNT = 10_000
TOKENS = 4
LONG_TOKENS = 100_000
AT_ONCE = 32


async def memory(bench: Bench) -> None:
    if Column.ONE not in bench.columns:
        return
    subject = bench.systems.one(routes=[Route.IDS])
    idle = await _streams(bench, subject, TOKENS, 1)
    warm = await _streams(bench, subject, TOKENS, WARM_COUNT)
    many = await _streams(bench, subject, TOKENS, COUNT)
    long = await _streams(bench, subject, LONG_TOKENS, 1)
    put = bench.board.put
    put("memory-idle", Column.ONE, idle.usage.memory_after_mb)
    put("memory-warm", Column.ONE, warm.usage.memory_after_mb)
    put("memory-streams", Column.ONE, many.usage.memory_after_mb)
    put("memory-long", Column.ONE, long.usage.memory_most_mb)


async def _streams(bench: Bench, subject: Subject, tokens: int, count: int) -> Sample:
    request = turn(subject, Route.IDS, tokens)
    sample = await load.streams(subject, request, tokens=tokens, at_once=min(count, AT_ONCE), count=count)
    bench.note_errors(subject, sample)
    return sample
