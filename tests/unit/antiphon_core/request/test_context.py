from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.items import normalise_input
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import CreateRequest, Parameters

ITEMS: list[Object] = [
    {"type": "compaction", "encrypted_content": "v1.k.x", "id": "cmp_1", "created_by": "somebody"},
    {"type": "compaction_trigger"},
    {"type": "configuration_update", "reasoning": {"effort": "high"}},
    {"type": "configuration_update", "text": {"format": {"type": "text"}}, "id": "cfg_1"},
    {"type": "configuration_update", "reasoning": None, "text": None},
]


def parse(**members: Any) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "input": "x"} | members))


@pytest.mark.parametrize("item", ITEMS)
def test_items_are_kept_as_they_were_written(item: Object) -> None:
    request = parse(input=[item])
    assert request.input_given == [item]
    (full,) = normalise_input(request.input_given, SequentialIds())
    assert full["type"] == item["type"]
    assert full["id"]


def test_a_compaction_without_an_id_gets_one_of_its_kind() -> None:
    (full,) = normalise_input([{"type": "compaction", "encrypted_content": "x"}], SequentialIds())
    assert full["id"].startswith("cmp_")


@pytest.mark.parametrize(
    ("item", "field", "code"),
    [
        ({"type": "compaction"}, "encrypted_content", "missing_required_parameter"),
        ({"type": "compaction", "encrypted_content": 1}, "encrypted_content", "invalid_type"),
        ({"type": "configuration_update", "reasoning": {"effort": "huge"}}, "reasoning.effort", "invalid_value"),
        ({"type": "configuration_update", "reasoning": {"summary": "auto"}}, "reasoning.summary", "unknown_parameter"),
        ({"type": "configuration_update", "text": {}}, "text.format", "missing_required_parameter"),
        ({"type": "configuration_update", "text": {"format": {"type": "xml"}}}, "text.format.type", "invalid_value"),
    ],
)
def test_an_invalid_context_item_is_rejected_with_its_path(item: Object, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse(input=[item])
    assert (raised.value.field, raised.value.code) == (f"input[0].{field}", code)


def test_context_management_travels_with_the_parameters() -> None:
    asked = parse(context_management=[{"type": "compaction", "compact_threshold": 1000}]).as_json()
    assert asked["context_management"] == [{"type": "compaction", "compact_threshold": 1000}]
    assert Parameters.parse(dumps(asked)).as_json() == asked
    assert parse(context_management=[]).as_json()["context_management"] == []


@pytest.mark.parametrize(
    ("given", "field", "code"),
    [
        ([{"type": "clear"}], "context_management[0].type", "invalid_value"),
        ([{}], "context_management[0].type", "missing_required_parameter"),
        (
            [{"type": "compaction", "compact_threshold": 0}],
            "context_management[0].compact_threshold",
            "integer_below_min_value",
        ),
        ([{"type": "compaction", "keep": 1}], "context_management[0].keep", "unknown_parameter"),
        ([{"type": "compaction"}] * 2, "context_management", "array_above_max_length"),
    ],
)
def test_an_invalid_context_management_is_rejected_with_its_path(given: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse(context_management=given)
    assert (raised.value.field, raised.value.code) == (field, code)
