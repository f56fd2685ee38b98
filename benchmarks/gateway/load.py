"""Load: streams that begin as soon as another has ended, and requests at fixed times."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.gateway.http_client import Connection, Reply, connect
from benchmarks.gateway.processes import Usage, measured
from benchmarks.gateway.requests import marker_of
from benchmarks.gateway.subjects import Subject

TIMEOUT_S = 300.0
_TAIL_BYTES = 4096
_ENDS = (b"response.completed", b"response.incomplete", b"[DONE]")
_TOKENS = re.compile(rb'"(?:output|completion)_tokens":\s*(\d+)')
_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """One stream, measured by its client."""

    ttft_s: float
    total_s: float
    gaps_s: Sequence[float]
    """The time between two deltas, which is 0 for deltas of one read."""
    error: str = ""


@dataclass(slots=True)
class Sample:
    """Streams that ran together, and their cost for the subject."""

    outcomes: list[Outcome] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    wall_s: float = 0
    tokens: int = 0
    """The number of tokens that the engine sent."""

    @property
    def errors(self) -> list[str]:
        return [outcome.error for outcome in self.outcomes if outcome.error]

    @property
    def cpu_us_per_token(self) -> float:
        return self.usage.total_cpu_s / self.tokens * 1e6

    def ttft_ms(self, percent: int) -> float:
        return percentile([outcome.ttft_s for outcome in self.outcomes if not outcome.error], percent) * 1e3

    def total_ms(self, percent: int) -> float:
        return percentile([outcome.total_s for outcome in self.outcomes if not outcome.error], percent) * 1e3

    def gap_ms(self, percent: int) -> float:
        return percentile([gap for outcome in self.outcomes for gap in outcome.gaps_s], percent) * 1e3


def percentile(values: Sequence[float], percent: int) -> float:
    """Returns a percentile, or NaN without values."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def outcome_of(reply: Reply, tokens: int, *, begun_s: float | None = None) -> Outcome:
    """Returns the times and the error of a stream. `begun_s` is the time at which the stream was due, if not the time
    of its request."""
    begun = reply.sent_s if begun_s is None else begun_s
    first = reply.arrivals[0][0] if reply.arrivals else reply.ended_s
    gaps: list[float] = []
    for (earlier, _), (later, count) in pairwise(reply.arrivals):
        gaps += [later - earlier, *(0.0 for _ in range(count - 1))]
    return Outcome(first - begun, reply.ended_s - begun, gaps, _error(reply, tokens))


def _error(reply: Reply, tokens: int) -> str:
    """Returns the reason why an answer is wrong, or "" for a correct answer."""
    tail = bytes(reply.data[-_TAIL_BYTES:])
    shown = tail.decode(errors="replace")[-_SHOWN_CHARS:]
    if reply.status != 200:
        return f"{reply.status}: {shown}"
    if not reply.is_whole or not any(end in reply.data for end in _ENDS):
        return f"cut off: {shown}"
    counted = _TOKENS.findall(tail) or _TOKENS.findall(reply.data)
    if not counted or int(counted[-1]) not in (tokens, tokens - 1):  # the end id may count or not
        return f"{counted[-1:]} tokens instead of {tokens}: {shown}"
    return ""


@dataclass(frozen=True, slots=True)
class _Load:
    """A queue of streams that are still to be requested."""

    subject: Subject
    make: Callable[[int], bytes]
    tokens: int
    numbers: Iterator[int]
    outcomes: list[Outcome]

    async def run(self, delay_s: float) -> None:
        """Requests one stream after the other until none is left."""
        await asyncio.sleep(delay_s)
        connection = await self.connect()
        for number in self.numbers:
            if not connection.is_open:
                connection = await self.connect()
            self.outcomes.append(outcome_of(await connection.ask(self.make(number)), self.tokens))
        connection.transport.close()

    async def connect(self) -> Connection:
        return await connect(self.subject.host, self.subject.port, marker_of(self.subject))


async def streams(
    subject: Subject,
    request: Callable[[int], bytes] | bytes,
    *,
    tokens: int,
    at_once: int,
    count: int,
    ramp_s: float = 0,
) -> Sample:
    """Runs `count` streams, `at_once` at a time. With `ramp_s` the first ones begin one after the other over that
    time."""
    make = request if callable(request) else lambda _: request
    sample = Sample(tokens=tokens * count)
    load = _Load(subject, make, tokens, iter(range(count)), sample.outcomes)
    begun = time.perf_counter()
    async with measured(subject.parts) as usage, asyncio.timeout(TIMEOUT_S):
        await asyncio.gather(*(load.run(ramp_s * number / at_once) for number in range(at_once)))
        sample.wall_s = time.perf_counter() - begun
    sample.usage = usage
    return sample


async def by_the_clock(
    subject: Subject, request: bytes, *, tokens: int, every_s: float, until: asyncio.Task[object]
) -> Sample:
    """Sends a request every `every_s` seconds until the task has ended, each on its own connection. Times count from
    the moment at which a request was due, so a slow request does not hide the delay of later ones (coordinated
    omission)."""
    sample = Sample()
    pending: list[asyncio.Task[None]] = []

    async def ask(due_s: float) -> None:
        connection = await connect(subject.host, subject.port, marker_of(subject))
        sample.outcomes.append(outcome_of(await connection.ask(request), tokens, begun_s=due_s))
        connection.transport.close()

    begun = time.perf_counter()
    while not until.done():
        due = begun + every_s * len(pending)
        await asyncio.sleep(due - time.perf_counter())
        pending.append(asyncio.create_task(ask(due)))
    await asyncio.gather(*pending)
    return sample
