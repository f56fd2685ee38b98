from __future__ import annotations

import asyncio
import logging
import re

import pytest

from antiphon_core.jsons import Object
from tests.support.edge import RunningEdge

BODY: Object = {"model": "m", "input": "hi"}


@pytest.mark.parametrize("path", ["/v1/health/live", "/v1/nowhere", "/v1/responses/resp_x"])
async def test_every_answer_names_its_request(edge: RunningEdge, path: str) -> None:
    headers = (await edge.ask("GET", path)).headers
    assert re.fullmatch(r"req_[0-9a-f]{32}", headers["x-request-id"])
    assert int(headers["openai-processing-ms"]) >= 0
    assert headers["openai-version"] == "2020-10-01"


async def test_a_stream_names_its_request_too(edge: RunningEdge) -> None:
    assert (await edge.create(stream=True)).headers["x-request-id"].startswith("req_")


async def test_the_callers_own_id_is_kept(edge: RunningEdge) -> None:
    answer = await edge.ask("GET", "/v1/health/live", headers={"x-request-id": "trace-7.a"})
    assert answer.headers["x-request-id"] == "trace-7.a"


@pytest.mark.parametrize("unusable", ["", "two words", "x" * 129, "é"])
async def test_an_unusable_id_is_replaced(edge: RunningEdge, unusable: str) -> None:
    answer = await edge.ask("GET", "/v1/health/live", headers={"x-request-id": unusable})
    assert answer.headers["x-request-id"].startswith("req_")


async def test_one_access_line_for_each_request(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    await edge.ask("GET", "/v1/nowhere")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "antiphon_edge.access"]
    assert re.fullmatch(r"GET /v1/nowhere 404 \d+ms", line)


async def test_the_callers_own_name_is_in_the_access_line_beside_ours(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    given = "019a-thread:7"
    answer = await edge.ask("POST", "/v1/responses", BODY, headers={"X-Client-Request-Id": given})
    assert answer.status == 200
    assert answer.headers["x-request-id"].startswith("req_")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "antiphon_edge.access"]
    assert re.fullmatch(rf"POST /v1/responses 200 \d+ms client={given}", line)


@pytest.mark.parametrize("unusable", ["", "two words", "x" * 513, "é"])
async def test_a_name_that_could_be_taken_for_more_is_accepted_and_left_out(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture, unusable: str
) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    assert (await edge.ask("GET", "/v1/models", headers={"X-Client-Request-Id": unusable})).status == 200
    (line,) = [record.getMessage() for record in caplog.records if record.name == "antiphon_edge.access"]
    assert re.fullmatch(r"GET /v1/models 200 \d+ms", line)


async def test_a_caller_that_hangs_up_has_its_line_too(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="antiphon_edge.access")
    edge.translator.hang = True
    asking = asyncio.create_task(edge.create())
    while not edge.translator.turns:
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait_for(edge.translator.closed.wait(), 30)
    async with asyncio.timeout(30):
        while "499" not in caplog.text:
            await asyncio.sleep(0.01)
    assert "POST /v1/responses 499" in caplog.text
