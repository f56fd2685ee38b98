from __future__ import annotations

import pytest

from tests.support.edge import RunningEdge


async def test_an_unknown_url(edge: RunningEdge) -> None:
    answer = await edge.ask("GET", "/v2/responses")
    assert (answer.status, answer.error["code"]) == (404, "unknown_url")
    assert answer.error["message"] == "Unknown request URL: GET /v2/responses."


async def test_a_wrong_method_names_the_right_ones(edge: RunningEdge) -> None:
    answer = await edge.ask("PUT", "/v1/responses")
    assert (answer.status, answer.error["code"], answer.headers["allow"]) == (405, "method_not_allowed", "GET,POST")


async def test_a_bug_is_logged_and_not_sent(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise ZeroDivisionError("secret detail")

    edge.translator.models = broken  # type: ignore[assignment,method-assign]
    answer = await edge.ask("GET", "/v1/models")
    assert (answer.status, answer.error["type"]) == (500, "server_error")
    assert b"secret" not in answer.body
    assert "secret detail" in caplog.text
