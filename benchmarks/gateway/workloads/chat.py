"""Streams from a chat upstream: at full speed, paced, one by one, and short."""

from __future__ import annotations

from benchmarks.gateway.bench import Bench
from benchmarks.gateway.rows import AT_ONCE
from benchmarks.gateway.subjects import Column, Route

DELTAS = 200
SHORT_DELTAS = 16
_COUNTS = {1: 20, 16: 64, 64: 320, 512: 512}
_MANY = 512  # with so many streams one round is enough


async def full_speed(bench: Bench) -> None:
    for at_once in AT_ONCE:
        subjects = [bench.engines.chat, *bench.gateways()] if at_once == 64 else bench.gateways()
        samples = await bench.compare(
            subjects,
            Route.CHAT,
            DELTAS,
            at_once=at_once,
            count=_COUNTS[at_once],
            rounds=1 if at_once == _MANY else None,
        )
        bench.put_cpu(f"chat-{at_once}-cpu", samples)
        if at_once == 64:
            bench.put_least("chat-64-ttft", samples, lambda sample: sample.ttft_ms(50))
            for column, rounds in samples.items():
                rate = max(sample.tokens / sample.wall_s for sample in rounds)
                bench.board.put("chat-64-rate", column, rate / 1e3)


async def paced(bench: Bench) -> None:
    for at_once in AT_ONCE:
        samples = await bench.compare(
            bench.gateways(),
            Route.CHAT,
            DELTAS,
            is_paced=True,
            at_once=at_once,
            count=at_once,
            rounds=1,
        )
        bench.put_cpu(f"chat-paced-{at_once}-cpu", samples)


async def time_to_first_token(bench: Bench) -> None:
    """Measures the time that a gateway adds to the engine's own time to first token, with one stream at a time."""
    samples = await bench.compare(
        [bench.engines.chat, *bench.gateways()],
        Route.CHAT,
        5,
        at_once=1,
        count=200,
    )
    best = {column: min(sample.ttft_ms(50) for sample in rounds) for column, rounds in samples.items()}
    for column, value in best.items():
        bench.board.put("ttft", column, value - (0 if column is Column.ENGINE else best[Column.ENGINE]))


async def short_turns(bench: Bench) -> None:
    samples = await bench.compare(
        bench.gateways(),
        Route.CHAT,
        SHORT_DELTAS,
        at_once=16,
        count=640,
    )
    bench.put_cpu("short", samples, scale=SHORT_DELTAS / 1e3)
