"""The members that a chat request may have."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_edge.chat.body import ChatRequest

HI = [{"role": "user", "content": "Hi"}]


def parse(**members: Any) -> ChatRequest:
    return ChatRequest.parse(dumps({"model": "m", "messages": HI} | members))


@pytest.mark.parametrize(
    "members",
    [
        {"n": 1, "store": False, "modalities": ["text"], "logit_bias": {}, "functions": [], "logprobs": False},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"},
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
        {"response_format": {"type": "json_object"}},
        {"stop": "a"},
        {"stop": ["a", "b"], "stream": True, "stream_options": {"include_usage": True}},
        {"max_tokens": None, "max_completion_tokens": 5},
    ],
)
def test_a_supported_chat_request_is_accepted(members: dict[str, Any]) -> None:
    assert parse(**members).model == "m"


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        ({"n": 2}, "n", "unsupported_value"),
        ({"n": 0}, "n", "unsupported_value"),
        ({"n": "1"}, "n", "invalid_type"),
        ({"messages": []}, "messages", "array_below_min_length"),
        ({"temprature": 1}, "temprature", "unknown_parameter"),
        ({"store": True}, "store", "unsupported_parameter"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"modalities": ["audio"]}, "modalities", "unsupported_value"),
        ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
        ({"function_call": "auto"}, "function_call", "unsupported_parameter"),
        ({"logit_bias": {"1": 2}}, "logit_bias", "unsupported_parameter"),
        ({"prediction": {"type": "content"}}, "prediction", "unsupported_parameter"),
        ({"prediction": {}}, "prediction", "unsupported_parameter"),
        ({"audio": {}}, "audio", "unsupported_parameter"),
        ({"stream": True, "stream_options": {"usage": 1}}, "stream_options.usage", "unknown_parameter"),
        ({"web_search_options": {}}, "web_search_options", "unsupported_parameter"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens", "mutually_exclusive_parameters"),
        ({"tool_choice": {"type": "mcp"}}, "tool_choice", "unsupported_value"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
    ],
)
def test_an_unsupported_chat_member_is_rejected_by_name(members: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**members)
    assert (caught.value.field, caught.value.code) == (field, code)
    assert field in caught.value.message
