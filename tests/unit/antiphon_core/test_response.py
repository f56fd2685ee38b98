from __future__ import annotations

import pytest
from openresponses_types.types import ResponseResource

from antiphon_core import response
from antiphon_core.error_forms import envelope
from antiphon_core.errors import (
    AntiphonError,
    EngineFault,
    InternalError,
    InvalidRequest,
    RequestRateExceeded,
    StaleFence,
)
from antiphon_core.jsons import dumps, loads

PARAMETERS = {"model": "m", "temperature": 0.2, "text": {"verbosity": None}, "reasoning": {"effort": "low"}}


def new_response() -> dict[str, object]:
    return response.skeleton(PARAMETERS, response_id="resp_1", created_at=1_700_000_000)


def test_a_new_response_is_a_valid_resource() -> None:
    ResponseResource.model_validate(new_response())


def test_a_new_response_echoes_parameters_and_fills_in_defaults() -> None:
    new = new_response()
    assert (new["temperature"], new["top_p"], new["service_tier"]) == (0.2, 1.0, "default")
    assert new["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert new["reasoning"] == {"effort": "low", "summary": None}


def test_a_new_response_echoes_the_whole_text_format() -> None:
    asked = {"type": "json_schema", "name": "person", "schema": {"type": "object", "default": None}}
    text = {"format": asked, "verbosity": "low"}
    new = response.skeleton({"model": "m", "text": text}, response_id="resp_1", created_at=1)
    assert new["text"] == {"format": asked | {"strict": False, "description": None}, "verbosity": "medium"}
    text["format"] = asked | {"strict": True, "description": "Who."}
    new = response.skeleton({"model": "m", "text": text}, response_id="resp_1", created_at=1)
    assert new["text"]["format"] == text["format"]
    # The echo is not validated, because the type of this member in Open Responses allows no schema.


@pytest.mark.parametrize(
    ("cached", "read", "written"),
    [(2, 2, 1), (0, 0, 3), (3, 3, 0), (None, 0, 0)],
    ids=["a part", "nothing", "all", "not reported"],
)
def test_usage_adds_up(cached: int | None, read: int, written: int) -> None:
    usage = response.usage(input_tokens=3, output_tokens=4, cached_tokens=cached)
    assert usage["total_tokens"] == 7
    assert usage["input_tokens_details"] == {"cached_tokens": read, "cache_write_tokens": written}


def test_a_failed_response_keeps_its_output() -> None:
    item = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    done = item | {"id": "msg_0", "status": "completed"}
    ended = response.fail(new_response() | {"output": [done, item]}, EngineFault("gone"))
    assert ended["status"] == "failed"
    assert ended["error"] == {"code": "server_error", "message": "gone", "cause": {"reason": "ENGINE_FAULT"}}
    assert [part["status"] for part in ended["output"]] == ["completed", "incomplete"]
    ResponseResource.model_validate(ended)


@pytest.mark.parametrize(
    "error",
    [
        EngineFault("CUDA error"),
        InvalidRequest("Not that schema.", field="text.format", code="unsupported_value"),
        RequestRateExceeded("Too many.", retry_after_ms=1_500),
    ],
)
def test_the_error_of_a_failed_response_can_be_read_back(error: AntiphonError) -> None:
    again = response.error_of(loads(dumps(response.fail(new_response(), error))))
    assert (type(again), again.facts, envelope(again)) == (type(error), error.facts, envelope(error))


def test_internal_facts_of_an_error_are_not_kept_in_a_failed_response() -> None:
    assert response.fail(new_response(), StaleFence.of("s", token=7))["error"]["cause"] == {"reason": "STALE_FENCE"}


def test_a_failure_of_an_older_version_is_a_fault_of_the_server() -> None:
    error = response.error_of({"error": {"code": "server_error", "message": "gone"}})
    assert (type(error), error.message) == (InternalError, "gone")


def test_a_cancelled_response_has_no_error() -> None:
    ended = response.cancel(new_response())
    assert (ended["status"], ended["error"]) == ("cancelled", None)


def test_splitting_and_joining_is_lossless() -> None:
    whole = new_response() | {"output": [{"id": "msg_1"}]}
    body, output_items = response.split(whole)
    assert b'"output"' not in body
    assert loads(response.join(body, output_items)) == whole


def test_given_prompt_cache_options_are_echoed_as_implicit() -> None:
    def told(**members: object) -> object:
        parameters = {"model": "m", **members}
        new = response.skeleton(parameters, response_id="resp_1", created_at=1)
        return new.get("prompt_cache_options")

    assert told() is None
    assert told(prompt_cache_options={"mode": "explicit"}) == {"mode": "implicit"}
