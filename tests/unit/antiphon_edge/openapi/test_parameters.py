"""Parameters as the document tells them."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_edge.openapi import parameters as p
from antiphon_edge.openapi.operations import OPERATIONS


def test_a_parameter_of_a_path_is_needed_and_others_are_not() -> None:
    assert p.RESPONSE_ID.as_object()["required"] is True
    assert p.ORDER.as_object() == {
        "name": "order",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "enum": ["asc", "desc"], "default": "desc"},
        "description": "`asc` for oldest first, `desc` for newest first.",
    }


def test_what_can_be_included_is_one_list_and_means_something_on_responses() -> None:
    assert p.INCLUDE_SEALED.schema == p.INCLUDE.schema
    assert "reasoning.encrypted_content" in p.INCLUDE_SEALED.description
    told = {operation.name for operation in OPERATIONS if p.INCLUDE_SEALED in operation.parameters}
    assert told == {"getResponse", "listInputItems"}


def test_bounds_are_those_of_the_handlers() -> None:
    assert p.ITEM_LIMIT.schema["maximum"] == limits.PAGE_ITEMS_MAX
    assert p.TREE_LIMIT.schema["maximum"] == limits.TREE_NODES_MAX
    assert p.IDEMPOTENCY_KEY.schema["maxLength"] == limits.IDEMPOTENCY_KEY_BYTES_MAX
