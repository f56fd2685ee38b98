from __future__ import annotations

import asyncio
import logging
import re

import pytest

from antiphon_core.jsons import Object
from antiphon_core.telemetry import correlation, metrics
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.trace_context import TraceContext
from tests.support.edge import RunningEdge
from tests.support.recorded_spans import recorded
from tests.support.waiting import until

BODY: Object = {"model": "m", "input": "hi"}
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("path", ["/v1/health/live", "/v1/nowhere", "/v1/responses/resp_x"])
async def test_every_answer_has_a_request_id(edge: RunningEdge, path: str) -> None:
    headers = (await edge.ask("GET", path)).headers
    assert re.fullmatch(r"req_[0-9a-f]{32}", headers["x-request-id"])
    assert int(headers["openai-processing-ms"]) >= 0
    assert headers["openai-version"] == "2020-10-01"


async def test_stream_has_a_request_id(edge: RunningEdge) -> None:
    assert (await edge.create(stream=True)).headers["x-request-id"].startswith("req_")


async def test_request_id_of_the_client_is_kept(edge: RunningEdge) -> None:
    answer = await edge.ask("GET", "/v1/health/live", headers={"x-request-id": "trace-7.a"})
    assert answer.headers["x-request-id"] == "trace-7.a"


@pytest.mark.parametrize("unusable", ["", "two words", "x" * 129, "é"])
async def test_an_unusable_id_is_replaced(edge: RunningEdge, unusable: str) -> None:
    answer = await edge.ask("GET", "/v1/health/live", headers={"x-request-id": unusable})
    assert answer.headers["x-request-id"].startswith("req_")


async def test_each_request_logs_one_access_line(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    await edge.ask("GET", "/v1/nowhere")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "antiphon_edge.access"]
    assert re.fullmatch(r"GET /v1/nowhere 404 \d+ms", line)


async def test_client_request_id_is_in_the_access_line(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    given = "019a-thread:7"
    answer = await edge.ask("POST", "/v1/responses", BODY, headers={"X-Client-Request-Id": given})
    assert answer.status == 200
    assert answer.headers["x-request-id"].startswith("req_")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "antiphon_edge.access"]
    assert re.fullmatch(rf"POST /v1/responses 200 \d+ms client={given}", line)


@pytest.mark.parametrize("unusable", ["", "two words", "x" * 513, "é"])
async def test_unusable_client_request_id_is_left_out_of_the_access_line(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture, unusable: str
) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    assert (await edge.ask("GET", "/v1/models", headers={"X-Client-Request-Id": unusable})).status == 200
    (line,) = [record.getMessage() for record in caplog.records if record.name == "antiphon_edge.access"]
    assert re.fullmatch(r"GET /v1/models 200 \d+ms", line)


async def test_client_disconnect_is_logged_with_status_499(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    edge.translator.hang = True
    asking = asyncio.create_task(edge.create())
    await until(lambda: bool(edge.translator.turns), "the turn")
    asking.cancel()
    await asyncio.wait_for(edge.translator.closed.wait(), 30)
    async with asyncio.timeout(30):
        while "499" not in caplog.text:
            await asyncio.sleep(0.01)
    assert "POST /v1/responses 499" in caplog.text


async def test_disconnect_after_the_answer_began_is_logged_with_its_status(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    socket = await edge.http.session.ws_connect(edge.http.url + "/v1/responses")
    await socket.close()
    async with asyncio.timeout(30):
        while "GET /v1/responses" not in caplog.text:
            await asyncio.sleep(0.01)
    assert "GET /v1/responses 101" in caplog.text


def requests(route: str, code: str) -> float:
    return metrics.HTTP_REQUESTS.of("GET", route, code).value


@pytest.mark.parametrize(
    ("path", "route", "code"),
    [
        ("/v1/models/one", "/v1/models/{id}", "404"),
        ("/v1/health/live", "/v1/health/live", "200"),
        ("/v1/nowhere/of-mine", "other", "404"),
    ],
)
async def test_requests_are_counted_by_route_and_never_by_path(
    edge: RunningEdge, path: str, route: str, code: str
) -> None:
    before = requests(route, code)
    await edge.ask("GET", path)
    assert requests(route, code) == before + 1
    assert not [labels for labels in metrics.HTTP_REQUESTS.children() if "of-mine" in labels[1]]


async def test_server_timing_header_has_the_phases_of_the_request(edge: RunningEdge) -> None:
    timing = (await edge.create()).headers["server-timing"]
    assert [each.partition(";dur=")[0] for each in timing.split(", ")] == ["start", "first-token", "commit", "total"]
    streamed = (await edge.create(stream=True)).headers["server-timing"]
    assert [each.partition(";dur=")[0] for each in streamed.split(", ")] == ["start", "total"]


async def test_spans_of_a_request_belong_to_its_trace(edge: RunningEdge) -> None:
    with recorded() as tracer:
        answer = await edge.ask("POST", "/v1/responses", BODY, headers={"traceparent": TRACEPARENT})
    assert answer.status == 200
    request, turn = tracer.spans
    assert (request.name, request.parent) == ("POST /v1/responses", TraceContext.parse(TRACEPARENT))
    assert (turn.name, turn.parent) == ("turn", request.trace)
    assert (request.facts["http.route"], request.facts["http.response.status_code"]) == ("/v1/responses", 200)


async def test_response_id_is_not_logged_with_the_next_request_on_its_connection(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Correlation] = []

    def note(_record: logging.LogRecord) -> bool:
        seen.append(correlation.current())
        return True

    caplog.handler.addFilter(note)
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    await edge.create()
    await edge.ask("GET", "/v1/health/live")
    assert [bool(each.response_id) for each in seen] == [True, False]
    assert len({each.request_id for each in seen}) == 2
