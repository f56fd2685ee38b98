from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from antiphon.talk import load
from antiphon.talk.api import Api
from antiphon.talk.errors import ApiError
from antiphon.talk.load import Result, Sample
from antiphon_core.jsons import Object

DELTA: Object = {"type": "response.output_text.delta", "delta": "x"}
COMPLETED: Object = {"type": "response.completed", "response": {"usage": {"output_tokens": 11}}}
FAILED: Object = {"type": "response.failed", "response": {"error": {"message": "no luck"}}}


class Server:
    """Answers each request with the given events, and then fails with `fault`, if given."""

    def __init__(self, *events: Object, fault: ApiError | None = None) -> None:
        self._events = events
        self._fault = fault

    async def events(self, _body: Object) -> AsyncIterator[Object]:
        for event in self._events:
            yield event
        if self._fault is not None:
            raise self._fault


def api(*events: Object, **more: Any) -> Api:
    return cast(Api, Server(*events, **more))


def ticks(*seconds: float) -> Iterator[float]:
    return iter(seconds)


async def test_ttft_and_total_time_count_from_the_start_of_the_request() -> None:
    clock = ticks(10.0, 10.5, 12.5)
    sample = await load.one(api(DELTA, DELTA, COMPLETED), {}, lambda: next(clock))
    assert sample == Sample(ttft_s=0.5, total_s=2.5, output_tokens=11)
    assert sample.tokens_per_s == 5.0


@pytest.mark.parametrize(
    ("server", "error"),
    [
        (api(DELTA, FAILED), "no luck"),
        (api(fault=ApiError("gone", 503)), "gone"),
        (api(DELTA), "The stream ended without an end of the response."),
        (api({"type": "response.failed", "response": {"error": None}}), "The response failed without a reason."),
    ],
)
async def test_failed_requests_are_counted_by_reason(server: Api, error: str) -> None:
    result = await load.run(server, {}, requests=3, concurrency=2, on_done=lambda _count: None)
    assert [sample.error for sample in result.samples] == [error] * 3
    assert result.lines()[-1] == f"3 x {error}"


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {"total_tokens": 3}}])
async def test_a_response_whose_server_counts_no_tokens_is_completed(usage: Object) -> None:
    completed = {"type": "response.completed", "response": usage}
    sample = await load.one(api(DELTA, completed), {})
    assert (sample.error, sample.output_tokens) == ("", 0)


async def test_load_sends_the_requested_number_of_requests() -> None:
    done: list[int] = []
    result = await load.run(api(DELTA, COMPLETED), {}, requests=7, concurrency=3, on_done=done.append)
    assert (len(result.completed_samples), sum(done)) == (7, 7)


def test_percentiles_are_of_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [load.percentile(values, percent) for percent in (50, 90, 99)] == [50, 90, 99]
    assert load.percentile([math.nan, 3.0], 50) == 3.0
    assert math.isnan(load.percentile([], 50))


def test_the_table_shows_completed_requests_rates_and_percentiles() -> None:
    lines = Result([Sample(0.5, 1.0, 11), Sample(error="no")], took_s=2.0).lines()
    assert lines[0] == "1 of 2 requests completed in 2.00 s: 0.5 requests/s, 5.5 tokens/s"
    assert lines[2].split()[-3:] == ["0.500"] * 3
