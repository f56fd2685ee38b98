from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.trace_context import TraceContext

TRACE = TraceContext("1" * 32, "2" * 16, is_sampled=True)
TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-01"


@pytest.fixture(autouse=True)
def _nothing() -> Iterator[None]:
    correlation.begin(Correlation())
    yield
    correlation.begin(Correlation())


def test_correlation_headers_are_read_back_by_the_called_service() -> None:
    given = Correlation("req_1", "resp_1", trace=TRACE)
    correlation.begin(given)
    assert Correlation.of_call(dict(correlation.service_headers())) == given


def test_engine_headers_carry_request_id_and_trace_only() -> None:
    correlation.begin(Correlation("req_1", "resp_1", "job_1", TRACE))
    assert correlation.engine_headers() == [("x-request-id", "req_1"), ("traceparent", TRACEPARENT)]


def test_an_empty_correlation_has_no_headers_and_no_fields() -> None:
    assert correlation.service_headers() == []
    assert correlation.current().fields() == {}


@pytest.mark.parametrize("text", ["a\nb", "a b", "", "é", "a" * 129])
def test_an_id_that_could_forge_a_log_line_is_ignored(text: str) -> None:
    assert Correlation.of_call({"x-request-id": text, "antiphon-response-id": text}) == Correlation()


def test_correlation_fields_contain_known_ids_only() -> None:
    correlation.note(response_id="resp_1", trace=TRACE)
    assert correlation.current().fields() == {"response_id": "resp_1", "trace_id": "1" * 32, "span_id": "2" * 16}


@pytest.mark.parametrize(
    ("trace", "named"), [(TRACE, "1" * 32), (TraceContext("1" * 32, "2" * 16, is_sampled=False), ""), (None, "")]
)
def test_exemplars_name_sampled_traces_only(trace: TraceContext | None, named: str) -> None:
    correlation.begin(Correlation(trace=trace))
    assert correlation.sampled_trace_id() == named


async def test_a_task_inherits_the_correlation_and_keeps_its_changes_to_itself() -> None:
    correlation.begin(Correlation("req_1"))

    async def work() -> str:
        request_id = correlation.current().request_id
        correlation.note(request_id="req_2")
        return request_id

    assert await asyncio.create_task(work()) == "req_1"
    assert correlation.current().request_id == "req_1"
