from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_edge.conversation_requests import AddItems, CreateConversation, ForkSession, UpdateConversation

MESSAGE = {"role": "user", "content": "x"}


def test_everything_about_a_new_conversation_is_optional() -> None:
    for body in (b"{}", b'{"metadata":null,"items":null}', b'{"items":[]}'):
        asked = CreateConversation.parse(body)
        assert (asked.metadata, asked.items_given) == (None, [])
    assert CreateConversation.parse(b'{"metadata":{"a":"b"}}').metadata == {"a": "b"}


def test_items_are_kept_as_the_client_wrote_them() -> None:
    items: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "input_text", "text": "x", "mark": True}], "own": 1},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "fc_1"},
    ]
    assert CreateConversation.parse(dumps({"items": items})).items_given == items
    assert AddItems.parse(dumps({"items": items})).items_given == items


def test_metadata_of_an_update_can_be_replaced_or_cleared() -> None:
    assert UpdateConversation.parse(b'{"metadata":{"a":"b"}}').metadata == {"a": "b"}
    assert UpdateConversation.parse(b'{"metadata":null}').metadata is None


def test_a_fork_accepts_a_response_id_and_a_session_id() -> None:
    assert not ForkSession.parse(b"{}").model_fields_set
    asked = ForkSession.parse(b'{"up_to_response_id":"r","new_session_id":"s"}')
    assert (asked.up_to_response_id, asked.new_session_id) == ("r", "s")


@pytest.mark.parametrize(
    ("model", "body", "field", "code"),
    [
        (CreateConversation, {"items": [MESSAGE] * 21}, "items", "array_above_max_length"),
        (CreateConversation, {"items": "x"}, "items", "invalid_type"),
        (CreateConversation, {"items": [MESSAGE, {"role": "user"}]}, "items[1].content", "missing_required_parameter"),
        (CreateConversation, {"items": [MESSAGE | {"role": "critic"}]}, "items[0].role", "invalid_value"),
        (CreateConversation, {"items": [{"type": "massage"}]}, "items[0].type", "invalid_value"),
        (CreateConversation, {"items": [{"type": "image_generation_call"}]}, "items[0]", "unsupported_value"),
        (CreateConversation, {"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        (CreateConversation, {"metadata": {str(n): "" for n in range(17)}}, "metadata", "object_above_max_length"),
        (CreateConversation, {"metadata": {"a": "x" * 513}}, "metadata.a", "string_above_max_length"),
        (CreateConversation, {"name": "x"}, "name", "unknown_parameter"),
        (UpdateConversation, {}, "metadata", "missing_required_parameter"),
        (AddItems, {}, "items", "missing_required_parameter"),
        (AddItems, {"items": None}, "items", "invalid_type"),
        (AddItems, {"items": []}, "items", "array_below_min_length"),
        (AddItems, {"items": [MESSAGE] * 21}, "items", "array_above_max_length"),
        (ForkSession, {"up_to_response_id": 1}, "up_to_response_id", "invalid_type"),
        (ForkSession, {"upto": "x"}, "upto", "unknown_parameter"),
    ],
)
def test_an_invalid_conversation_request_is_rejected_with_its_path(
    model: Any, body: Any, field: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        model.parse(dumps(body))
    assert (caught.value.field, caught.value.code) == (field, code)


@pytest.mark.parametrize("members", [{}, {"type": None}])
def test_an_added_item_with_only_an_id_becomes_an_item_reference(members: dict[str, Any]) -> None:
    given = AddItems.parse(dumps({"items": [{"id": "msg_1"} | members, {"role": "user", "content": "x"}]}))
    assert given.items_given == [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "x"}]
