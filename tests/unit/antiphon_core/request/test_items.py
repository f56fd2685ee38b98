from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.items import normalise_input
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.items import items_given

ITEMS: list[Object] = [
    {"role": "user", "content": "Rome?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
    {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "x"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n", "status": "completed"},
    {"type": "function_call_output", "call_id": "c", "output": "Sunny."},
    {"type": "custom_tool_call", "call_id": "d", "name": "exec", "input": "ls"},
    {"type": "custom_tool_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "a"}]},
    {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "g"}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "u", "detail": "original", "file_id": None}]},
    {"role": "user", "content": [{"type": "input_file", "file_data": "u", "filename": "a", "detail": "high"}]},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": "u"}]},
    {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_file", "file_url": "u"}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
    {"type": "tool_search_call", "execution": "server", "arguments": {}, "call_id": None},
    {"type": "tool_search_output", "call_id": "t", "tools": []},
    {"type": "tool_search_call", "execution": "client", "arguments": {"query": "x"}, "call_id": "t"},
    {"type": "tool_search_output", "execution": "client", "call_id": "t", "tools": []},
]


def parse(*items: Any) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "input": list(items)}))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.get("type", "message"))
def test_items_are_kept_as_they_were_written(item: Object) -> None:
    assert parse(item).input_given == [item]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.get("type", "message"))
def test_normalised_items_have_an_id_and_a_type(item: Object) -> None:
    (full,) = normalise_input(parse(item).input_given, SequentialIds())
    assert full["id"]
    assert full["type"] == item.get("type", "message")


@pytest.mark.parametrize(
    ("item", "field", "code"),
    [
        ({"type": "function_call", "call_id": "c", "name": "f"}, "arguments", "missing_required_parameter"),
        (
            {"type": "function_call", "call_id": "", "name": "f", "arguments": "{}"},
            "call_id",
            "string_below_min_length",
        ),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}, "arguments", "invalid_type"),
        ({"type": "reasoning", "summary": [], "encrypted_content": 5}, "encrypted_content", "invalid_type"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "content[0].image_url", "missing_required_parameter"),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": {"url": "u"}}]},
            "content[0].image_url",
            "invalid_type",
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "u", "detail": "best"}]},
            "content[0].detail",
            "invalid_value",
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]},
            "content[0].file_id",
            "unsupported_parameter",
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": "u", "file_id": "file_1"}]},
            "content[0].file_id",
            "unsupported_parameter",
        ),
        ({"role": "user", "content": [{"type": "input_file"}]}, "content[0]", "missing_required_parameter"),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": "u", "file_url": "u"}]},
            "content[0]",
            "mutually_exclusive_parameters",
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": "u", "filename": "a" * 256}]},
            "content[0].filename",
            "string_above_max_length",
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "file_id": "file_1"}]},
            "output[0].file_id",
            "unsupported_parameter",
        ),
        ({"type": "function_call_output", "output": "x"}, "call_id", "missing_required_parameter"),
        ({"type": "function_call_output", "call_id": "c", "output": 7}, "output", "invalid_type"),
        ({"type": "custom_tool_call", "call_id": "c", "name": "f"}, "input", "missing_required_parameter"),
        (
            {"type": "reasoning", "content": [{"type": "reasoning_text"}]},
            "content[0].text",
            "missing_required_parameter",
        ),
    ],
)
def test_an_invalid_item_is_rejected_with_its_path(item: Object, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(item)
    assert (caught.value.field, caught.value.code) == (f"input[0].{field}", code)


@pytest.mark.parametrize("members", [{}, {"type": None}, {"type": "item_reference"}])
def test_an_item_with_only_an_id_is_an_item_reference(members: Object) -> None:
    assert parse({"id": "msg_1"} | members).input_given == [{"type": "item_reference", "id": "msg_1"}]


def test_a_message_may_have_null_for_its_type() -> None:
    given = parse({"type": None, "id": "msg_1", "role": "user", "content": "x"}).input_given
    assert normalise_input(given, SequentialIds())[0]["type"] == "message"


@pytest.mark.parametrize("summary", [{}, {"summary": None}, {"summary": []}])
def test_reasoning_without_a_summary_gets_an_empty_one(summary: Object) -> None:
    item = {"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    assert items_given([item | summary]) == [item | {"summary": []}]
