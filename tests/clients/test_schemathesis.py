"""Sends some requests that schemathesis makes from the OpenAPI document; `make schemathesis` sends ten thousand."""

from __future__ import annotations

from tests.clients import http_fuzz


def test_fuzzed_requests_get_documented_answers_and_no_5xx() -> None:
    asked = http_fuzz.run(40, seed=1)
    assert {name for name, _ in asked} >= {"createResponse", "createConversation", "getTree", "listModels"}
    assert not [status for _, status in asked if status >= 500]
