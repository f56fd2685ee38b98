from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_edge.chat.body import ChatRequest

CALL = {"type": "function", "id": "call_1", "function": {"name": "f", "arguments": "{}"}}


def parse(message: dict[str, Any]) -> ChatRequest:
    return ChatRequest.parse(dumps({"model": "m", "messages": [message]}))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "user", "content": "Hi", "name": "Alice", "new": 1, "prefix": False, "audio": None},
        {"role": "assistant", "content": "Hi", "reasoning": "Hm.", "thinking": None, "annotations": []},
        {"role": "assistant", "content": "Hi", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
        {"role": "user", "content": [{"type": "text", "text": "Hi", "new": 1}]},
    ],
)
def test_a_chat_message_is_kept_with_all_its_members(message: dict[str, Any]) -> None:
    (kept,) = parse(message).messages
    assert kept.model_dump(exclude_unset=True) == message


@pytest.mark.parametrize(
    ("message", "field", "code"),
    [
        ({"role": "function", "content": "a"}, "role", "invalid_value"),
        ({"role": "user", "content": 1}, "content", "invalid_type"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "content[0]", "unsupported_value"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "content[0].image_url", "missing_required_parameter"),
        ({"role": "assistant", "reasoning": {"text": "Hm."}}, "reasoning", "invalid_type"),
        ({"role": "assistant", "reasoning_details": [{"type": "x"}]}, "reasoning_details[0].type", "invalid_value"),
        ({"role": "assistant", "content": "a", "prefix": True}, "prefix", "unsupported_parameter"),
        ({"role": "assistant", "audio": {"id": "audio_1"}}, "audio", "unsupported_parameter"),
        ({"role": "assistant", "function_call": {"name": "f"}}, "function_call", "unsupported_parameter"),
        (
            {"role": "assistant", "tool_calls": [CALL | {"id": 1}]},
            "tool_calls[0].id",
            "invalid_type",
        ),
    ],
)
def test_an_invalid_chat_message_is_rejected_with_its_path(message: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(message)
    assert (caught.value.field, caught.value.code) == (f"messages[0].{field}", code)
