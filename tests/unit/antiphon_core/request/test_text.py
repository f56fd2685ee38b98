from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.body import Parameters
from antiphon_core.request.text import JsonSchema

SCHEMA = {"type": "object", "properties": {"a": {"default": None, "enum": ["x", None]}}}
FORMAT = {"type": "json_schema", "name": "person", "schema": SCHEMA}


def parse(**members: Any) -> Parameters:
    return Parameters.parse(dumps({"model": "m"} | members))


@pytest.mark.parametrize(
    "given",
    [
        {"type": "text"},
        {"type": "json_object"},
        FORMAT,
        FORMAT | {"strict": True, "description": "Who it is."},
        FORMAT | {"name": "a" * 64, "schema": {}},
    ],
)
def test_a_format_is_kept_as_it_was_given(given: dict[str, Any]) -> None:
    asked = parse(text={"format": given, "verbosity": "low"}).as_json()
    assert asked["text"] == {"format": given, "verbosity": "low"}
    assert parse(**asked).as_json() == asked  # services pass the format on


def test_null_members_of_a_format_are_left_out() -> None:
    given = FORMAT | {"strict": None, "description": None}
    assert parse(text={"format": given}).as_json()["text"]["format"] == FORMAT
    assert parse(text={"format": None}).as_json()["text"] == {}


def test_a_json_schema_format_keeps_its_schema() -> None:
    text = parse(text={"format": FORMAT}).text
    assert text is not None
    assert isinstance(text.format, JsonSchema)
    assert text.format.schema_ == SCHEMA


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"name": "has space"}, "name", "invalid_value"),
        ({"name": ""}, "name", "string_below_min_length"),
        ({"name": "a" * 65}, "name", "string_above_max_length"),
        ({"name": None}, "name", "invalid_type"),
        ({"schema": []}, "schema", "invalid_type"),
        ({"schema": None}, "schema", "invalid_type"),
        ({"schema": True}, "schema", "invalid_type"),
        ({"strict": "yes"}, "strict", "invalid_type"),
        ({"description": 1}, "description", "invalid_type"),
        ({"stric": True}, "stric", "unknown_parameter"),
        ({"type": "json"}, "type", "invalid_value"),
        ({"type": "json_object"}, "name", "unknown_parameter"),
    ],
)
def test_an_invalid_format_is_rejected_with_its_path(changes: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text={"format": FORMAT | changes})
    assert (caught.value.field, caught.value.code) == (f"text.format.{field}", code)


@pytest.mark.parametrize("missing", ["type", "name", "schema"])
def test_a_missing_member_of_a_format_is_rejected_by_name(missing: str) -> None:
    given = {name: value for name, value in FORMAT.items() if name != missing}
    with pytest.raises(InvalidRequest) as caught:
        parse(text={"format": given})
    assert (caught.value.field, caught.value.code) == (f"text.format.{missing}", "missing_required_parameter")


@pytest.mark.parametrize(
    ("members", "field", "words"),
    [
        (
            {"text": {"format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}}},
            "text.format.json_schema",
            "stand in 'text.format' itself",
        ),
        ({"response_format": {"type": "json_object"}}, "response_format", "use 'text.format'"),
    ],
)
def test_the_chat_completions_spelling_is_rejected_with_the_right_one(
    members: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        parse(**members)
    assert caught.value.field == field


@pytest.mark.parametrize("text", ["x", [], {"format": "json_object"}, {"format": []}])
def test_a_text_or_format_that_is_not_an_object_is_rejected(text: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text=text)
    assert caught.value.code == "invalid_type"
