from __future__ import annotations

import pytest

from antiphon_core.errors import (
    TABLE,
    AntiphonError,
    EngineMisconfigured,
    IdempotencyMismatch,
    RequestRateExceeded,
    SessionLocked,
    StoreUnavailable,
    Unimplemented,
)
from antiphon_core.jsons import Object
from antiphon_edge.http.http_errors import SHOULD_RETRY, raw_rejection
from tests.support.edge import RunningEdge


async def test_unknown_url_is_not_found(edge: RunningEdge) -> None:
    answer = await edge.ask("GET", "/v2/responses")
    assert (answer.status, answer.error["code"]) == (404, "unknown_url")
    assert answer.error["message"] == "Unknown request URL: GET /v2/responses."


async def test_wrong_method_is_rejected_with_the_allowed_ones(edge: RunningEdge) -> None:
    answer = await edge.ask("PUT", "/v1/responses")
    assert (answer.status, answer.error["code"], answer.headers["allow"]) == (405, "method_not_allowed", "GET,POST")


async def test_head_or_options_without_a_route_is_rejected_with_the_allowed_methods(edge: RunningEdge) -> None:
    answer = await edge.ask("HEAD", "/v1/models")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0
    for method, path, allowed in (("HEAD", "/v1/responses", "GET,POST"), ("OPTIONS", "/v1/models", "GET,HEAD")):
        answer = await edge.ask(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)
        assert answer.headers["x-request-id"].startswith("req_")
    assert answer.error["code"] == "method_not_allowed"


async def test_beta_parameter_of_a_path_is_ignored(edge: RunningEdge) -> None:
    body = {"model": "m", "input": "hi"}
    answer = await edge.ask("POST", "/v1/responses?beta=true", body, headers={"OpenAI-Beta": "responses=v1"})
    assert (answer.status, answer.json["status"]) == (200, "completed")
    again = await edge.ask("GET", f"/v1/responses/{answer.json['id']}?beta=true")
    assert again.json == answer.json


@pytest.mark.parametrize("status", [431, 503])
def test_rejection_without_a_parsed_request_forbids_content_sniffing(status: int) -> None:
    head, _, _ = raw_rejection(status, "a_code", "a message").partition(b"\r\n\r\n")
    assert b"X-Content-Type-Options: nosniff" in head.split(b"\r\n")


def test_every_error_that_sdks_retry_says_whether_to_retry() -> None:
    repeated = {row.error for row in TABLE if row.http_status in (408, 409, 429) or row.http_status >= 500}
    assert set(SHOULD_RETRY) == repeated | {SessionLocked}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (IdempotencyMismatch.of("k"), "false"),
        (Unimplemented.of("This"), "false"),
        (SessionLocked.of("s"), "true"),
        (StoreUnavailable("Gone."), "true"),
        (RequestRateExceeded("Too many.", retry_after_ms=1500), "true"),
        (EngineMisconfigured("No such model."), "false"),
    ],
)
async def test_error_has_the_should_retry_header(edge: RunningEdge, error: AntiphonError, expected: str) -> None:
    async def refuse() -> None:
        raise error

    edge.translator.models = refuse  # type: ignore[assignment,method-assign]
    answer = await edge.ask("GET", "/v1/models")
    assert answer.headers["x-should-retry"] == expected


async def test_error_that_no_sdk_retries_has_no_should_retry_header(edge: RunningEdge) -> None:
    assert "x-should-retry" not in (await edge.ask("GET", "/v1/models/none")).headers


async def test_unexpected_error_is_logged_and_not_sent(edge: RunningEdge, caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise ZeroDivisionError("secret detail")

    edge.translator.models = broken  # type: ignore[assignment,method-assign]
    answer = await edge.ask("GET", "/v1/models")
    assert (answer.status, answer.error["type"]) == (500, "server_error")
    assert b"secret" not in answer.body
    assert "secret detail" in caplog.text


@pytest.mark.parametrize(
    ("asked", "begins", "ends"),
    [
        ({"truncation": "x" * 1_000_000}, "Invalid value: 'xxx", "'truncation' must be one of 'auto' or 'disabled'."),
        ({"x" * 1_000_000: 1}, "Unknown parameter: 'xxx", "xxx'."),
        ({"conversation": "x" * 1_000_000}, "Conversation with id 'xxx", "xxx' not found."),
    ],
)
async def test_error_message_shortens_a_long_value(edge: RunningEdge, asked: Object, begins: str, ends: str) -> None:
    answer = await edge.create(**asked)
    assert answer.error["message"].startswith(begins)
    assert answer.error["message"].endswith(ends)
    assert len(answer.body) < 2_000
