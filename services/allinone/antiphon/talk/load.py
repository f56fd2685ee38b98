"""A load test of a Responses server: sends requests concurrently, and measures the latency and rate of each.

Times are measured in the client. `ttft_s` is the time from sending a request to its first event with text. The rate is
the number of tokens behind the first one, divided by the time from the first text to the end.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from antiphon.talk.api import Api, failure_of
from antiphon.talk.errors import ApiError
from antiphon_core import events
from antiphon_core.jsons import Object

PERCENTILES = (50, 90, 99)
_DELTAS = ("response.output_text.delta", "response.reasoning_text.delta", "response.reasoning_summary_text.delta")


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements of one request. `error` is empty if the request succeeded."""

    ttft_s: float = math.nan
    total_s: float = math.nan
    output_tokens: int = 0
    error: str = ""

    @property
    def tokens_per_s(self) -> float:
        after_first_s = self.total_s - self.ttft_s
        return (self.output_tokens - 1) / after_first_s if self.output_tokens > 1 and after_first_s > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Result:
    samples: Sequence[Sample]
    took_s: float

    @property
    def completed_samples(self) -> list[Sample]:
        return [sample for sample in self.samples if not sample.error]

    def lines(self) -> list[str]:
        """The lines of a table of the result."""
        completed, tokens = self.completed_samples, sum(sample.output_tokens for sample in self.completed_samples)
        rows = [
            ("time to first token, s", [sample.ttft_s for sample in completed]),
            ("tokens/s of a stream", [sample.tokens_per_s for sample in completed]),
            ("whole request, s", [sample.total_s for sample in completed]),
        ]
        heads = "".join(f"{f'p{percent}':>12}" for percent in PERCENTILES)
        return [
            f"{len(completed)} of {len(self.samples)} requests completed in {self.took_s:.2f} s: "
            f"{len(completed) / self.took_s:.1f} requests/s, {tokens / self.took_s:.1f} tokens/s",
            f"{'':<24}{heads}",
            *(f"{name:<24}" + "".join(_cell(values, percent) for percent in PERCENTILES) for name, values in rows),
            *(f"{count} x {error}" for error, count in _count_errors(self.samples)),
        ]


async def run(server: Api, body: Object, *, requests: int, concurrency: int, on_done: Callable[[int], None]) -> Result:
    """Sends `requests` requests, `concurrency` at a time. Calls `on_done` with 1 after each."""
    left = iter(range(requests))
    samples: list[Sample] = []

    async def lane() -> None:
        for _ in left:
            samples.append(await one(server, body))
            on_done(1)

    begun = perf_counter()
    await asyncio.gather(*(lane() for _ in range(min(concurrency, requests))))
    return Result(samples, perf_counter() - begun)


async def one(server: Api, body: Object, now_s: Callable[[], float] = perf_counter) -> Sample:
    begun, first = now_s(), math.nan
    try:
        async for event in server.events(body):
            if math.isnan(first) and event["type"] in _DELTAS:
                first = now_s()
            if event["type"] in (events.COMPLETED, events.INCOMPLETE):
                return Sample(first - begun, now_s() - begun, _output_tokens(event["response"]))
            if event["type"] == events.FAILED:
                return Sample(error=failure_of(event["response"]))
    except ApiError as error:
        return Sample(error=str(error))
    return Sample(error="The stream ended without an end of the response.")


def _output_tokens(response: Object) -> int:
    """The number of output tokens; 0 if the server does not count them."""
    return (response.get("usage") or {}).get("output_tokens") or 0


def percentile(values: Sequence[float], percent: int) -> float:
    """The percentile by nearest rank: the smallest value that at least `percent` % of the values do not exceed. NaN if
    there are no values."""
    known = sorted(value for value in values if not math.isnan(value))
    return known[max(0, math.ceil(len(known) * percent / 100) - 1)] if known else math.nan


def _cell(values: Sequence[float], percent: int) -> str:
    value = percentile(values, percent)
    return f"{'-':>12}" if math.isnan(value) else f"{value:>12.3f}"


def _count_errors(samples: Sequence[Sample]) -> list[tuple[str, int]]:
    errors = [sample.error for sample in samples if sample.error]
    return [(error, errors.count(error)) for error in dict.fromkeys(errors)]
