"""Measures whether many paced streams in one process on two cores all get their tokens in time.

Streams begin one after the other over the duration of one stream, so that their number stays constant.
"""

from __future__ import annotations

from benchmarks.gateway import load
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.load import Sample
from benchmarks.gateway.processes import keep_on_cores
from benchmarks.gateway.requests import PACE_MS, turn
from benchmarks.gateway.subjects import Column, Route, Subject
from benchmarks.gateway.workloads.ids import read_floor

CORES = 2
TOKENS = 200
STREAM_S = TOKENS * PACE_MS / 1e3
_IDS_STREAMS = 256
_CHAT_STREAMS = 512


async def capacity(bench: Bench) -> None:
    subject = bench.systems.one()
    for pid in subject.parts.values():
        keep_on_cores(pid, CORES)
    floor = await read_floor(bench, "paced", _IDS_STREAMS, TOKENS, rounds=1)
    bench.board.put("capacity-ids-gap", Column.ENGINE, floor["gap_p99_ms"])
    _put(bench, "capacity-ids", subject, await _paced(bench, subject, Route.IDS, _IDS_STREAMS), _IDS_STREAMS)
    chat = [bench.engines.chat, subject]
    if bench.peer is not None and Column.PEER in bench.columns:
        chat.append(bench.peer)
    for each in chat:
        _put(bench, "capacity-chat", each, await _paced(bench, each, Route.CHAT, _CHAT_STREAMS), _CHAT_STREAMS)


async def _paced(bench: Bench, subject: Subject, route: Route, at_once: int) -> Sample:
    request = turn(subject, route, TOKENS, is_paced=True)
    await bench.warm_up(subject, route, TOKENS, 64)
    sample = await load.streams(subject, request, tokens=TOKENS, at_once=at_once, count=2 * at_once, ramp_s=STREAM_S)
    bench.note_errors(subject, sample)
    return sample


def _put(bench: Bench, key: str, subject: Subject, sample: Sample, streams: int) -> None:
    put = bench.board.put
    put(f"{key}-errors", subject.column, len(sample.errors))
    put(f"{key}-ttft", subject.column, sample.ttft_ms(99))
    put(f"{key}-gap", subject.column, sample.gap_ms(99))
    if subject.parts:
        grown_mb = sample.usage.memory_most_mb - sample.usage.memory_before_mb
        put(f"{key}-memory", subject.column, grown_mb * 1024 / streams)
        put(f"{key}-cpu", subject.column, sample.cpu_us_per_token)
