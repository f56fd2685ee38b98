"""Responses become completions."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core import response
from antiphon_core.jsons import Object
from antiphon_edge.chat.completions import completion_of
from tests.support.document import require

TOKEN: Object = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}


def text(said: str, *logprobs: Object) -> Object:
    part = {"type": "output_text", "text": said, "annotations": [], "logprobs": list(logprobs)}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


THOUGHT: Object = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Hm."}],
}
CALL: Object = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
CUSTOM: Object = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "c", "input": "a"}


def completion(*output: Object, **members: Any) -> Object:
    ended = response.skeleton({"model": "m"}, response_id="resp_" + "0" * 48, created_at=7) | {
        "status": "completed",
        "output": list(output),
        "usage": response.usage(input_tokens=3, output_tokens=4, cached_tokens=1, reasoning_tokens=2),
    }
    made = completion_of(ended | members)
    require("ChatCompletion", made)
    return made


def message(*output: Object) -> Object:
    found: Object = completion(*output)["choices"][0]["message"]
    return found


def test_text_response_becomes_a_whole_completion() -> None:
    assert completion(text("Hi")) == {
        "id": "chatcmpl-" + "0" * 48,
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        "service_tier": "default",
        "system_fingerprint": None,
    }


def test_content_is_empty_without_output_and_null_with_calls_alone() -> None:
    assert message()["content"] == ""
    assert message(CALL)["content"] is None


def test_reasoning_texts_and_calls_become_members_of_one_message() -> None:
    made = message(THOUGHT, text("I "), text("look."), CALL, CUSTOM)
    assert (made["reasoning_content"], made["content"]) == ("Hm.", "I look.")
    assert made["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "call_2", "type": "custom", "custom": {"name": "c", "input": "a"}},
    ]


def test_reasoning_without_content_is_left_out() -> None:
    assert "reasoning_content" not in message({"id": "rs_1", "type": "reasoning", "summary": []}, text("a"))


@pytest.mark.parametrize(
    ("output", "reason", "finish_reason"),
    [
        ([text("a")], None, "stop"),
        ([text("a"), CALL], None, "tool_calls"),
        ([CUSTOM], None, "tool_calls"),
        ([text("a")], "max_output_tokens", "length"),
        ([CALL], "max_output_tokens", "length"),
        ([text("a")], "content_filter", "content_filter"),
    ],
)
def test_finish_reason_follows_from_the_output_and_its_incomplete_reason(
    output: list[Object], reason: str | None, finish_reason: str
) -> None:
    details = None if reason is None else {"reason": reason}
    assert completion(*output, incomplete_details=details)["choices"][0]["finish_reason"] == finish_reason


def test_log_probabilities_of_all_texts_are_joined() -> None:
    made = completion(text("Hi", TOKEN), text("Hi", TOKEN))
    assert made["choices"][0]["logprobs"] == {"content": [TOKEN, TOKEN], "refusal": None}
