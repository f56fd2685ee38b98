from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.limits import INPUT_ITEMS_MAX
from antiphon_core.request.body import ConversationRef, CreateRequest
from antiphon_core.request.errors import from_validation

OMIT = object()


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        ({"model": OMIT}, "model", "missing_required_parameter"),
        ({"input": OMIT}, "input", "missing_required_parameter"),
        ({"model": 5}, "model", "invalid_type"),
        ({"model": ""}, "model", "string_below_min_length"),
        ({"input": 42}, "input", "invalid_type"),
        ({"input": {"role": "user"}}, "input", "invalid_type"),
        ({"input": [3]}, "input[0]", "invalid_type"),
        ({"input": [user("a"), {"role": "user"}]}, "input[1].content", "missing_required_parameter"),
        ({"input": [user(7)]}, "input[0].content", "invalid_type"),
        ({"input": [user([{"type": "input_text"}])]}, "input[0].content[0].text", "missing_required_parameter"),
        ({"input": [user([{"type": "input_text", "text": 4}])]}, "input[0].content[0].text", "invalid_type"),
        ({"input": [user([{"type": "input_audio", "data": "u"}])]}, "input[0].content[0]", "unsupported_value"),
        ({"input": [user([{"type": "smell"}])]}, "input[0].content[0].type", "invalid_value"),
        ({"input": [user([{"text": "x"}])]}, "input[0].content[0].type", "missing_required_parameter"),
        ({"input": [user([{"type": None, "text": "x"}])]}, "input[0].content[0].type", "missing_required_parameter"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role", "invalid_value"),
        ({"input": [{"type": "code_interpreter_call", "call_id": "c"}]}, "input[0]", "unsupported_value"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name", "missing_required_parameter"),
        ({"input": [{"type": "telepathy"}]}, "input[0].type", "invalid_value"),
        ({"input": [user("x")] * (INPUT_ITEMS_MAX + 1)}, "input", "array_above_max_length"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"temperature": True}, "temperature", "invalid_type"),
        ({"temperature": 2.1}, "temperature", "decimal_above_max_value"),
        ({"temperature": -0.1}, "temperature", "decimal_below_min_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "integer_below_min_value"),
        ({"max_output_tokens": 1.5}, "max_output_tokens", "invalid_type"),
        ({"max_output_tokens": 10.0**30}, "max_output_tokens", "integer_above_max_value"),
        ({"max_output_tokens": -(10.0**23)}, "max_output_tokens", "integer_below_min_value"),
        ({"max_output_tokens": float(-(2**63) - 1)}, "max_output_tokens", "integer_below_min_value"),
        ({"max_output_tokens": -1.5}, "max_output_tokens", "invalid_type"),
        ({"temperature": 10.0**30}, "temperature", "decimal_above_max_value"),
        ({"top_logprobs": 21}, "top_logprobs", "integer_above_max_value"),
        ({"nvext": {"repetition_penalty": 0}}, "nvext.repetition_penalty", "decimal_below_min_value"),
        ({"nvext": {"repetition_penalty": 2.5}}, "nvext.repetition_penalty", "decimal_above_max_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"truncation": "some"}, "truncation", "invalid_value"),
        ({"conversation": []}, "conversation", "invalid_type"),
        ({"previous_response_id": 1}, "previous_response_id", "invalid_type"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "object_above_max_length"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a", "string_above_max_length"),
        ({"foo": 1}, "foo", "unknown_parameter"),
        ({"~foo": 1}, "~foo", "unknown_parameter"),
        ({"text": {"[key]": 1}}, "text.[key]", "unknown_parameter"),
        ({"tools": [{"type": "object", "properties": {}}]}, "tools[0].type", "invalid_value"),
        ({"tools": [{"type": "string"}]}, "tools[0].type", "invalid_value"),
        ({"input": [{"type": "array"}]}, "input[0].type", "invalid_value"),
        ({"stop": {"a": 1}}, "stop", "invalid_type"),
    ],
)
def test_an_invalid_member_is_rejected_with_its_code_and_path(members: dict[str, Any], field: str, code: str) -> None:
    body = {name: value for name, value in ({"model": "m", "input": "x"} | members).items() if value is not OMIT}
    with pytest.raises(InvalidRequest) as caught:
        CreateRequest.parse(dumps(body))
    assert (caught.value.field, caught.value.code) == (field, code)
    assert field in caught.value.message


def test_an_error_of_a_custom_validator_names_its_path() -> None:
    part = {"type": "input_image", "file_id": "file_1"}
    with pytest.raises(InvalidRequest) as caught:
        CreateRequest.parse(dumps({"model": "m", "input": [user([part])]}))
    assert caught.value.message == (
        "There is no Files API on this server, so no file has an id here: 'input[0].content[0].file_id'."
    )


def test_error_messages_have_the_wording_of_openai() -> None:
    with pytest.raises(InvalidRequest, match=r"^Missing required parameter: 'model'\.$"):
        CreateRequest.parse(b'{"input": "x"}')
    with pytest.raises(InvalidRequest, match=r"^Unknown parameter: 'foo'\.$"):
        CreateRequest.parse(b'{"model": "m", "input": "x", "foo": 1}')


@pytest.mark.parametrize(
    ("members", "possible", "others"),
    [
        (
            {"input": [{"type": "telepathy"}]},
            "message, function_call, ",
            ["shell_call", "tool_search_call", "VENDOR:TYPE"],
        ),
        ({"input": [user([{"type": "smell"}])]}, "input_text, output_text, refusal, input_image, input_file.", []),
        ({"tools": [{"type": "magic"}]}, "function, custom, namespace, shell, ", ["computer, tool_search, mcp, "]),
        ({"tool_choice": {"type": "magic"}}, "function, custom, shell, ", ["allowed_tools"]),
        ({"text": {"format": {"type": "yaml"}}}, "text, json_object, json_schema.", []),
    ],
)
def test_an_unknown_type_is_rejected_with_the_possible_ones(
    members: dict[str, Any], possible: str, others: list[str]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        CreateRequest.parse(dumps({"model": "m", "input": "x"} | members))
    assert f"Possible are: {possible}" in caught.value.message
    assert [name for name in others if name not in caught.value.message] == []
    assert "~" not in caught.value.message


@pytest.mark.parametrize(
    ("members", "wording"),
    [({"model": ""}, "at least 1 character."), ({"model": "m" * 10_000}, " characters.")],
)
def test_a_count_of_one_is_singular(members: dict[str, Any], wording: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        CreateRequest.parse(dumps({"model": "m", "input": "x"} | members))
    assert caught.value.message.endswith(wording)


def test_an_integer_of_many_digits_is_too_large() -> None:
    with pytest.raises(InvalidRequest, match="it is too large") as caught:
        CreateRequest.parse(b'{"model": "m", "input": "x", "max_output_tokens": 1%s}' % (b"0" * 30))
    assert caught.value.code == "integer_above_max_value"


def test_a_number_at_an_excluded_bound_is_told_to_be_beyond_it() -> None:
    with pytest.raises(InvalidRequest, match="it must be above 0.0"):
        CreateRequest.parse(b'{"model": "m", "input": "x", "nvext": {"repetition_penalty": 0}}')


def test_a_path_begins_with_the_given_prefix() -> None:
    with pytest.raises(ValidationError) as caught:
        ConversationRef.model_validate({"id": 5})
    error = from_validation(caught.value, where="input[1]")
    assert error.field == "input[1].id"
    assert "'input[1].id'" in error.message
