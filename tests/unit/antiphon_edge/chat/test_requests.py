"""A chat request becomes a create request."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_edge.chat.body import ChatRequest
from antiphon_edge.chat.requests import ChatTurn, as_turn

GRAMMAR = {"syntax": "regex", "definition": "a+"}
HI = [{"role": "user", "content": "Hi"}]


def turn(**members: Any) -> ChatTurn:
    return as_turn(ChatRequest.parse(dumps({"model": "m", "messages": HI} | members)))


def asked(**members: Any) -> dict[str, Any]:
    return turn(**members).create.as_json()


def test_minimal_chat_request_becomes_an_unstored_create_request() -> None:
    made = turn()
    assert made.create.input_given == [{"type": "message", "role": "user", "content": "Hi"}]
    assert made.create.as_json() == {"model": "m", "store": False, "tools": [], "text": {}, "reasoning": {}}
    assert (made.is_streaming, made.includes_usage) == (False, False)


def test_stream_options_are_read_from_the_chat_request() -> None:
    made = turn(stream=True, stream_options={"include_usage": True})
    assert (made.is_streaming, made.includes_usage, made.create.stream) == (True, True, True)


@pytest.mark.parametrize(
    ("members", "becomes"),
    [
        ({"max_tokens": 5}, {"max_output_tokens": 5}),
        ({"max_completion_tokens": 5}, {"max_output_tokens": 5}),
        ({"temperature": 0.5, "top_p": 0.1, "seed": 3}, {"temperature": 0.5, "top_p": 0.1, "seed": 3}),
        ({"stop": ["a"]}, {"stop": ["a"]}),
        ({"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}}),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}}},
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}}},
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
            {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]},
        ),
        (
            {"tools": [{"type": "function", "function": {"type": "web_search", "name": "f"}}]},
            {"tools": [{"type": "function", "name": "f"}]},
        ),
        (
            {"tools": [{"type": "custom", "custom": {"name": "c"}}]},
            {"tools": [{"type": "custom", "name": "c"}]},
        ),
        (
            {"tools": [{"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": GRAMMAR}}}]},
            {"tools": [{"type": "custom", "name": "c", "format": {"type": "grammar", **GRAMMAR}}]},
        ),
        (
            {"tools": [{"type": "custom", "custom": {"name": "c", "format": {"type": "text"}}}]},
            {"tools": [{"type": "custom", "name": "c", "format": {"type": "text"}}]},
        ),
        ({"tool_choice": "none"}, {"tool_choice": "none"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"tool_choice": {"type": "function", "name": "f"}},
        ),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
                }
            },
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}},
        ),
        ({"nvext": {"top_k": 3}, "user": "u", "metadata": {"a": "b"}}, {"user": "u", "metadata": {"a": "b"}}),
    ],
)
def test_chat_parameter_becomes_its_create_parameter(members: dict[str, Any], becomes: dict[str, Any]) -> None:
    found = asked(**members)
    assert {name: found[name] for name in becomes} == becomes


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        ({"temperature": 3}, "temperature", "decimal_above_max_value"),
        ({"reasoning_effort": "hard"}, "reasoning_effort", "invalid_value"),
        ({"verbosity": "loud"}, "verbosity", "invalid_value"),
        (
            {"tools": [{"type": "function", "function": {"name": "no spaces"}}]},
            "tools[0].function.name",
            "invalid_value",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            "response_format.json_schema.schema",
            "missing_required_parameter",
        ),
        (
            {"tool_choice": {"type": "function", "function": {}}},
            "tool_choice.function.name",
            "missing_required_parameter",
        ),
        (
            {"tool_choice": {"type": "custom", "custom": {"name": "no spaces"}}},
            "tool_choice.custom.name",
            "invalid_value",
        ),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
            "tool_choice.allowed_tools.tools",
            "array_below_min_length",
        ),
        (
            {"messages": [{"role": "tool", "tool_call_id": "c" * 257, "content": "a"}]},
            "messages[0]",
            "string_above_max_length",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {}}]}]},
            "messages[0].content[0]",
            "missing_required_parameter",
        ),
    ],
)
def test_invalid_chat_request_is_rejected_with_chat_parameter_names(
    members: dict[str, Any], field: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        turn(**members)
    assert (caught.value.field, caught.value.code) == (field, code)
    assert f"'{field}" in caught.value.message


@pytest.mark.parametrize(
    "tool", [{"type": [], "function": {"name": "f"}}, {"type": {}}, {"type": None}, {"": {}}, {"type": "function"}]
)
def test_invalid_tool_in_a_choice_is_passed_on_unchanged(tool: dict[str, Any]) -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [tool]}}
    assert asked(tool_choice=choice)["tool_choice"]["tools"] == [tool]
