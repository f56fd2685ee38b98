"""Measures the time to the first token of a new stream: alone, and beside 64 others at a pace or at full speed.

The engine sends the first token of the new stream at once, so its own time is that of a connection and a read.
"""

from __future__ import annotations

import asyncio

from benchmarks.gateway import load
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.load import Sample
from benchmarks.gateway.requests import turn
from benchmarks.gateway.rows import BESIDE
from benchmarks.gateway.subjects import Route, Subject

AT_ONCE = 64
TOKENS = 200
PROBE_TOKENS = 5
EVERY_S = 0.1
ALONE_S = 6.0
_COUNTS = {"paced": 2 * AT_ONCE, "full": 20 * AT_ONCE}
_RAMP_S = 4.0  # the duration of a paced stream, so that these begin at any time


async def first_tokens(bench: Bench) -> None:
    for manner in BESIDE:
        for subject in (bench.engines.chat, *bench.gateways()):
            await bench.warm_up(subject, Route.CHAT, TOKENS, 16)
            probes = await _probes(bench, subject, manner)
            bench.note_errors(subject, probes)
            for percent in (50, 95):
                bench.board.put(f"first-{manner}-p{percent}", subject.column, probes.ttft_ms(percent))


async def _probes(bench: Bench, subject: Subject, manner: str) -> Sample:
    """Returns the streams that were asked for by the clock, while the others ran."""
    others = asyncio.create_task(_others(bench, subject, manner))
    probe = turn(subject, Route.CHAT, PROBE_TOKENS)
    return await load.by_the_clock(subject, probe, tokens=PROBE_TOKENS, every_s=EVERY_S, until=others)


async def _others(bench: Bench, subject: Subject, manner: str) -> None:
    if manner == "alone":
        await asyncio.sleep(ALONE_S)
        return
    is_paced = manner == "paced"
    request = turn(subject, Route.CHAT, TOKENS, is_paced=is_paced)
    ramp_s = _RAMP_S if is_paced else 0
    sample = await load.streams(subject, request, tokens=TOKENS, at_once=AT_ONCE, count=_COUNTS[manner], ramp_s=ramp_s)
    bench.note_errors(subject, sample)
