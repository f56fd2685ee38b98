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
    asked = parse(text={"format": given, "verbosity": "low"}).asked()
    assert asked["text"] == {"format": given, "verbosity": "low"}
    assert parse(**asked).asked() == asked  # it travels from service to service


def test_null_is_as_good_as_nothing() -> None:
    given = FORMAT | {"strict": None, "description": None}
    assert parse(text={"format": given}).asked()["text"]["format"] == FORMAT
    assert parse(text={"format": None}).asked()["text"] == {}


def test_a_schema_is_read_by_its_own_name() -> None:
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
def test_a_mistake_is_named_by_its_path(changes: dict[str, Any], field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text={"format": FORMAT | changes})
    assert (caught.value.field, caught.value.code) == (f"text.format.{field}", code)


@pytest.mark.parametrize("missing", ["type", "name", "schema"])
def test_what_is_missing_is_named(missing: str) -> None:
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
        ({"response_format": {"type": "json_object"}}, "response_format", "it is 'text.format'"),
    ],
)
def test_the_spelling_of_chat_completions_is_refused_with_the_right_one(
    members: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        parse(**members)
    assert caught.value.field == field


@pytest.mark.parametrize("text", ["x", [], {"format": "json_object"}, {"format": []}])
def test_what_is_no_object_is_no_format(text: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(text=text)
    assert caught.value.code == "invalid_type"
