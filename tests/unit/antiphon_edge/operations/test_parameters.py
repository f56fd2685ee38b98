"""Parameters in the OpenAPI document."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_edge.operations import parameters as p
from antiphon_edge.operations.table import OPERATIONS


def test_path_parameter_is_required_and_query_parameter_is_optional() -> None:
    assert p.RESPONSE_ID.as_object()["required"] is True
    assert p.ORDER.as_object() == {
        "name": "order",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "enum": ["asc", "desc"], "default": "desc"},
        "description": "`asc` for oldest first, `desc` for newest first.",
    }


def test_sealed_include_has_the_common_values_and_is_used_by_two_reads() -> None:
    assert p.INCLUDE_SEALED.schema == p.INCLUDE.schema
    assert "reasoning.encrypted_content" in p.INCLUDE_SEALED.description
    told = {operation.name for operation in OPERATIONS if p.INCLUDE_SEALED in operation.parameters}
    assert told == {"getResponse", "listInputItems"}


def test_bounds_are_those_of_the_handlers() -> None:
    assert p.ITEM_LIMIT.schema["maximum"] == limits.PAGE_ITEMS_MAX
    assert p.TREE_LIMIT.schema["maximum"] == limits.TREE_NODES_MAX
    assert p.IDEMPOTENCY_KEY.schema["maxLength"] == limits.IDEMPOTENCY_KEY_BYTES_MAX
