"""Measures small requests beside inputs of a megabyte: whether the work of one tokenizer delays everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.gateway import load
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.load import Sample
from benchmarks.gateway.requests import turn
from benchmarks.gateway.subjects import Route, Subject
from benchmarks.gateway.texts import long_text

LARGE_CHARS = 1_000_000
LARGE_COUNT = 20
LARGE_AT_ONCE = 2
SMALL_TOKENS = 16
LARGE_TOKENS = 4
EVERY_S = 0.1
ALONE_S = 5.0


async def large_inputs(bench: Bench) -> None:
    for subject in bench.antiphons():
        warm = turn(subject, Route.IDS, SMALL_TOKENS)
        await load.streams(subject, warm, tokens=SMALL_TOKENS, at_once=1, count=20)
        requests = _large_requests(subject)  # made before the clock starts, because it takes 60 ms
        alone = await _small(subject, asyncio.create_task(asyncio.sleep(ALONE_S, None)))
        large = asyncio.create_task(_large(subject, requests))
        beside = await _small(subject, large)
        _put(bench, subject, alone, beside, await large)


async def _small(subject: Subject, until: asyncio.Task[Sample] | asyncio.Task[None]) -> Sample:
    request = turn(subject, Route.IDS, SMALL_TOKENS)
    return await load.by_the_clock(subject, request, tokens=SMALL_TOKENS, every_s=EVERY_S, until=until)


def _large_requests(subject: Subject) -> Sequence[bytes]:
    return [
        turn(subject, Route.IDS, LARGE_TOKENS, text=long_text(LARGE_CHARS, number)) for number in range(LARGE_COUNT)
    ]


async def _large(subject: Subject, requests: Sequence[bytes]) -> Sample:
    return await load.streams(
        subject, requests.__getitem__, tokens=LARGE_TOKENS, at_once=LARGE_AT_ONCE, count=LARGE_COUNT
    )


def _put(bench: Bench, subject: Subject, alone: Sample, beside: Sample, large: Sample) -> None:
    for name, sample in (("alone", alone), ("beside", beside)):
        bench.note_errors(subject, sample)
        bench.board.put(f"small-{name}-p50", subject.column, sample.total_ms(50))
        bench.board.put(f"small-{name}-p99", subject.column, sample.total_ms(99))
    bench.note_errors(subject, large)
    bench.board.put("large-cpu", subject.column, large.usage.total_cpu_s / LARGE_COUNT * 1e3)
    bench.board.put("large-memory", subject.column, large.usage.memory_most_mb)
