"""Measures the three services as a fleet runs them: more and more paced streams, with and without TLS between them.

All rows have the same number of ids a second, which two cores can do beside the engine and the clients. So a row with
more streams shows the cost of a stream, and not that of a busier machine.
"""

from __future__ import annotations

from benchmarks.gateway import load
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.load import Sample
from benchmarks.gateway.requests import turn
from benchmarks.gateway.rows import STREAMS_BETWEEN_SERVICES
from benchmarks.gateway.subjects import Column, Route, Subject

TOKENS = 200
IDS_PER_SECOND = 100_000
_BEGIN_S = 5.0  # so long the streams begin one after the other
_ROUTES = {20: Route.PACED_IDS, 80: Route.IDS_EACH_80_MS, 320: Route.IDS_EACH_320_MS}


async def services(bench: Bench) -> None:
    if Column.SPLIT not in bench.columns:
        return
    subjects = {"": bench.split, "-tls": bench.split_with_tls}
    for subject in subjects.values():
        await bench.warm_up(subject, Route.IDS, TOKENS, 64)
    for streams, pace_ms in STREAMS_BETWEEN_SERVICES.items():
        for suffix, subject in subjects.items():
            _put(bench, f"services-{streams}", suffix, await _paced(bench, subject, _ROUTES[pace_ms], streams))


async def _paced(bench: Bench, subject: Subject, route: Route, streams: int) -> Sample:
    request = turn(subject, route, TOKENS)
    sample = await load.streams(subject, request, tokens=TOKENS, at_once=streams, count=streams, ramp_s=_BEGIN_S)
    bench.note_errors(subject, sample)
    return sample


def _put(bench: Bench, key: str, suffix: str, sample: Sample) -> None:
    bench.put_cpu(f"{key}-cpu{suffix}", {Column.SPLIT: [sample]})
    bench.board.put(f"{key}-cores{suffix}", Column.SPLIT, sample.cpu_us_per_token * IDS_PER_SECOND / 1e6)
    bench.board.put(f"{key}-gap{suffix}", Column.SPLIT, sample.gap_ms(99))
