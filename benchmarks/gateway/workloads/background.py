"""Responses in the background beside the same number of streams, at 50 tokens a second, on SQLite and on Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from antiphon_core.jsons import loads
from benchmarks.gateway import load
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.http_client import connect
from benchmarks.gateway.processes import measured
from benchmarks.gateway.requests import PACE_MS, get, marker_of, turn
from benchmarks.gateway.subjects import Column, Route, Subject
from tests.support.redis_servers import redis_server

AT_ONCE = 64  # as many as a worker runs at a time
DELTAS = 200
POLL_S = 0.1
TIMEOUT_S = 120.0


async def background(bench: Bench) -> None:
    if Column.ONE in bench.columns:
        await _compare(bench, "sqlite", bench.one)
        with redis_server() as redis:
            await _compare(bench, "redis", bench.systems.one(store=redis.url))
    if Column.SPLIT in bench.columns:
        await _compare(bench, "sqlite", bench.systems.split(with_worker=True))


async def _compare(bench: Bench, key: str, subject: Subject) -> None:
    """Compares streams and background responses one after the other. One round is enough for so many tokens."""
    await bench.warm_up(subject, Route.CHAT, DELTAS, 16)
    request = turn(subject, Route.CHAT, DELTAS, is_paced=True)
    attached = await load.streams(subject, request, tokens=DELTAS, at_once=AT_ONCE, count=AT_ONCE)
    bench.note_errors(subject, attached)
    bench.board.put(f"attached-{key}", subject.column, attached.cpu_us_per_token)
    bench.board.put(f"background-{key}", subject.column, await _run_in_background(bench, subject, AT_ONCE))


async def _run_in_background(bench: Bench, subject: Subject, count: int) -> float:
    """Returns the processor time per delta, in microseconds, until all responses are done. Polling begins only when the
    responses should have ended."""
    async with measured(subject.parts) as usage:
        ids = await asyncio.gather(*(_create(subject) for _ in range(count)))
        await asyncio.sleep(DELTAS * PACE_MS / 1e3)
        states = [await _end(subject, response_id) for response_id in ids]
    if failed := [state for state in states if state != "completed"]:
        bench.board.problems.append(f"{subject.column}: {len(failed)} in the background ended as {failed[0]}")
    return usage.total_cpu_s / (count * DELTAS) * 1e6


async def _create(subject: Subject) -> str:
    asked = turn(subject, Route.CHAT, DELTAS, is_paced=True, background=True)
    return str((await _ask(subject, asked))["id"])


async def _end(subject: Subject, response_id: str) -> str:
    """Waits for the end of a response and returns its status."""
    request = get(subject, f"{subject.path}/{response_id}")
    deadline = time.monotonic() + TIMEOUT_S
    while (state := str((await _ask(subject, request))["status"])) in ("queued", "in_progress"):
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(POLL_S)
    return state


async def _ask(subject: Subject, request: bytes) -> Mapping[str, object]:
    connection = await connect(subject.host, subject.port, marker_of(subject))
    reply = await connection.ask(request)
    connection.transport.close()
    if reply.status != 200:
        raise RuntimeError(f"{subject.column} answered {reply.status}: {reply.body[:300]!r}")
    answer: Mapping[str, object] = loads(reply.body)
    return answer
