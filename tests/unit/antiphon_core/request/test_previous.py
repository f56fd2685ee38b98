from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import CreateRequest, Parameters

OUTPUT: list[Object] = [{"id": "msg_1", "type": "message", "role": "assistant", "content": [], "z": 1}]
PREVIOUS: Object = {"id": "resp_1", "object": "response", "status": "completed", "output": OUTPUT, "store": False}


def parse(**members: Any) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "input": "x"} | members))


def test_a_previous_response_is_kept_with_output_and_encrypted_context() -> None:
    request = parse(previous_response=PREVIOUS | {"usage": {"total_tokens": 3}, "encrypted_context": "v1.k.x"})
    assert request.previous_response is not None
    assert request.previous_response.output_given == OUTPUT
    assert (request.previous_response.id, request.previous_response.encrypted_context) == ("resp_1", "v1.k.x")


def test_a_previous_response_is_passed_on_as_its_id_only() -> None:
    asked = parse(previous_response=PREVIOUS).as_json()
    assert asked == {"model": "m", "previous_response_id": "resp_1"}
    assert Parameters.parse(dumps(asked)).as_json() == asked


@pytest.mark.parametrize(
    "others",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"previous_response_id": "resp_1", "conversation": "conv_1", "previous_response": None},
    ],
)
def test_more_than_one_history_is_rejected(others: Object) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse(**({"previous_response": PREVIOUS} | others))
    assert raised.value.code == "mutually_exclusive_parameters"
    assert all(f"'{name}'" in raised.value.message for name, value in others.items() if value is not None)


@pytest.mark.parametrize(
    ("previous", "field", "code"),
    [
        ("resp_1", "previous_response", "invalid_type"),
        ({"output": []}, "previous_response.id", "missing_required_parameter"),
        ({"id": "resp_1"}, "previous_response.output", "missing_required_parameter"),
        (PREVIOUS | {"status": "in_progress"}, "previous_response.status", "invalid_value"),
        (PREVIOUS | {"status": "failed"}, "previous_response.status", "invalid_value"),
        (PREVIOUS | {"object": "conversation"}, "previous_response.object", "invalid_value"),
        (PREVIOUS | {"encrypted_context": 3}, "previous_response.encrypted_context", "invalid_type"),
        (
            PREVIOUS | {"output": [{"type": "function_call", "call_id": "c", "name": "f"}]},
            "previous_response.output[0].arguments",
            "missing_required_parameter",
        ),
    ],
)
def test_an_invalid_previous_response_is_rejected_with_its_path(previous: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse(previous_response=previous)
    assert (raised.value.field, raised.value.code) == (field, code)
