"""Messages become items."""

from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_edge.chat.body_messages import ChatMessage
from antiphon_edge.chat.messages import as_items

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CUSTOM = {"id": "call_2", "type": "custom", "custom": {"name": "c", "input": "a"}}


def items(*messages: Object) -> list[tuple[Object, str]]:
    return [(each.item, each.origin) for each in as_items([ChatMessage.model_validate(one) for one in messages])]


@pytest.mark.parametrize("role", ["system", "developer", "user"])
def test_text_message_becomes_a_message_item(role: str) -> None:
    assert items({"role": role, "content": "Hi"}) == [
        ({"type": "message", "role": role, "content": "Hi"}, "messages[0]")
    ]


def test_content_parts_become_input_parts() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,AA==", "filename": "a.txt"}},
    ]
    ((item, _),) = items({"role": "user", "content": parts})
    assert item["content"] == [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
        {
            "type": "input_file",
            "file_data": "data:text/plain;base64,AA==",
            "file_id": None,
            "filename": "a.txt",
        },
    ]


def test_assistant_message_becomes_reasoning_message_and_call_items() -> None:
    message = {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [CALL, CUSTOM]}
    assert items({"role": "user", "content": "a"}, message)[1:] == [
        (
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
            "messages[1].reasoning_content",
        ),
        ({"type": "message", "role": "assistant", "content": "I look."}, "messages[1]"),
        (
            {"call_id": "call_1", "type": "function_call", "name": "f", "arguments": "{}"},
            "messages[1].tool_calls[0]",
        ),
        ({"call_id": "call_2", "type": "custom_tool_call", "name": "c", "input": "a"}, "messages[1].tool_calls[1]"),
    ]


@pytest.mark.parametrize(
    ("given", "member", "text"),
    [
        ({"reasoning": "Hm."}, "reasoning", "Hm."),
        ({"thinking": "Hm."}, "thinking", "Hm."),
        ({"reasoning_content": "Hm.", "reasoning": "Hm."}, "reasoning_content", "Hm."),
        ({"reasoning_content": "", "reasoning": "Hm."}, "reasoning", "Hm."),
        ({"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}, "reasoning", "Hm."),
        (
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "H", "index": 0},
                    {"type": "reasoning.text", "text": "m.", "index": 0, "signature": "s"},
                    {"type": "reasoning.text", "text": None, "index": 1},
                    {"type": "reasoning.encrypted", "data": "x", "index": 2},
                    {"type": "reasoning.summary", "summary": "Well.", "index": None},
                    {"type": "reasoning.text", "text": "So."},
                ]
            },
            "reasoning_details",
            "Hm.\nWell.\nSo.",
        ),
    ],
)
def test_reasoning_is_read_under_each_of_its_names(given: Object, member: str, text: str) -> None:
    (item, origin), answer = items({"role": "assistant", "content": "I look.", **given})
    assert (item["content"], origin) == ([{"type": "reasoning_text", "text": text}], f"messages[0].{member}")
    assert answer[0] == {"type": "message", "role": "assistant", "content": "I look."}


def test_two_different_texts_of_reasoning_are_rejected() -> None:
    with pytest.raises(InvalidRequest, match="Send one of them") as caught:
        items({"role": "assistant", "content": "a", "reasoning_content": "Hm.", "reasoning": "Well."})
    assert caught.value.field == "messages[0].reasoning"


def test_encrypted_reasoning_is_left_out() -> None:
    given = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}
    assert [item["type"] for item, _ in items({"role": "assistant", "content": "a", **given})] == ["message"]


def test_the_name_of_a_speaker_is_kept() -> None:
    found = items({"role": "user", "content": "a", "name": "bob"}, {"role": "assistant", "content": "b", "name": "al"})
    assert [item["name"] for item, _ in found] == ["bob", "al"]


def test_tool_result_becomes_the_output_item_of_its_kind_of_call() -> None:
    found = items(
        {"role": "assistant", "tool_calls": [CALL, CUSTOM]},
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}]},
    )
    assert [item for item, _ in found[2:]] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "one"},
        {
            "type": "custom_tool_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_text", "text": "two"}],
        },
    ]


def test_refusal_becomes_a_refusal_part() -> None:
    ((item, _),) = items({"role": "assistant", "content": "Well.", "refusal": "No."})
    assert item["content"] == [{"type": "output_text", "text": "Well."}, {"type": "refusal", "refusal": "No."}]
    ((item, _),) = items({"role": "assistant", "content": [{"type": "text", "text": "Well."}], "refusal": "No."})
    assert item["content"] == [{"type": "output_text", "text": "Well."}, {"type": "refusal", "refusal": "No."}]
    ((item, _),) = items({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]})
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "user"}, "messages[0].content"),
        ({"role": "assistant", "tool_calls": []}, "messages[0].content"),
        ({"role": "tool", "content": "a"}, "messages[0].tool_call_id"),
        ({"role": "tool", "tool_call_id": "call_1"}, "messages[0].content"),
    ],
)
def test_message_without_a_member_that_its_role_needs_is_rejected(message: Object, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        items(message)
    assert (caught.value.field, caught.value.code) == (field, "missing_required_parameter")
