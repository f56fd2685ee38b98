"""The cases of the Open Responses compliance suite for compaction over HTTP, one test for each."""

from __future__ import annotations

from openresponses_types.types import CompactResource

from tests.clients.test_open_responses import said
from tests.support.http import Http

TALK = [
    said("user", "We agreed to launch on Tuesday and notify support first."),
    said("assistant", "Understood. The launch is Tuesday, with support notified beforehand."),
]


async def test_compact_response(served: Http, model: str) -> None:
    body = {"model": model, "prompt_cache_key": "openresponses-compact-test", "input": TALK}
    answer = await served.post("/v1/responses/compact", body)
    assert answer.status == 200, answer.body
    CompactResource.model_validate(answer.json)
    assert answer.json["object"] == "response.compaction"
    assert "compaction" in [item["type"] for item in answer.json["output"]]
    assert {"input_tokens_details", "output_tokens_details"} <= set(answer.json["usage"])


async def test_compact_missing_model(served: Http) -> None:
    answer = await served.post("/v1/responses/compact", {"input": TALK[:1]})
    assert answer.status in (400, 422)
    assert (answer.error["code"], answer.error["param"]) == ("missing_required_parameter", "model")
