from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.error_forms import envelope
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import Parameters
from antiphon_core.request.text import TextFormat
from antiphon_translator.generation import Guide, GuideKind
from antiphon_translator.schemas.structured import answer_check, guide

SCHEMA: Object = {
    "type": "object",
    "properties": {"z": {"type": "string"}, "a": {"type": "integer"}},
    "required": ["z", "a"],
    "additionalProperties": False,
}


def asked(**members: Any) -> TextFormat | None:
    parameters = Parameters.parse(dumps({"model": "m", "text": {"format": members}}))
    return parameters.text.format if parameters.text is not None else None


def schema(given: Object, *, strict: bool | None = None) -> TextFormat | None:
    return asked(type="json_schema", name="point", schema=given, strict=strict)


def test_plain_text_format_has_no_guide_and_no_check() -> None:
    for plain in (None, asked(type="text")):
        assert guide(plain) is None
        assert answer_check(plain) is None


def test_json_mode_is_guided_and_checked_as_any_object() -> None:
    mode = asked(type="json_object")
    assert guide(mode) == Guide(GuideKind.JSON)
    check = answer_check(mode)
    assert check is not None
    assert check.mismatch('{"a": 1}') is None
    assert check.mismatch("[1]") == "it does not match the schema at ('type',)"


def test_schema_guide_keeps_the_written_order() -> None:
    text = '{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},"required":["z","a"],'
    text += '"additionalProperties":false}'
    assert guide(schema(SCHEMA)) == Guide(GuideKind.JSON_SCHEMA, text, "point", is_strict=False)
    told = asked(type="json_schema", name="p", schema={}, strict=True, description="Where.")
    assert guide(told) == Guide(GuideKind.JSON_SCHEMA, "{}", "p", description="Where.", is_strict=True)


@pytest.mark.parametrize("strict", [None, False, True])
def test_answers_are_checked_against_the_schema(strict: bool | None) -> None:
    check = answer_check(schema(SCHEMA, strict=strict))
    assert check is not None
    assert check.mismatch('{"z": "x", "a": 1}') is None
    assert check.mismatch('{"z": "x", "a": "y"}') == "it does not match the schema at ('properties', 'a', 'type')"


def test_loose_schema_is_rejected_only_with_strict() -> None:
    loose: Object = {"type": "array", "items": {"oneOf": [{"type": "integer", "multipleOf": 5}, {"minLength": 1}]}}
    assert answer_check(schema(loose)) is not None
    with pytest.raises(InvalidRequest):
        answer_check(schema(loose, strict=True))


@pytest.mark.parametrize(
    ("given", "strict", "words"),
    [
        (SCHEMA | {"properties": {"z": {"type": "strnig"}}}, None, "In context=('properties', 'z', 'type'), "),
        (
            SCHEMA | {"properties": {"z": {"pattern": "("}, "a": {}}},
            None,
            "In context=('properties', 'z', 'pattern'), this is",
        ),
        ({"$ref": "file:///etc/passwd"}, None, "In context=('$ref',), '$ref' must refer to a place in the schema"),
        ({"type": "object"}, True, "In context=(), 'additionalProperties' is required to be supplied and to be false."),
        (SCHEMA | {"required": ["a"]}, True, "In context=(), 'required' is required to be supplied and to be an array"),
    ],
)
def test_invalid_response_schema_is_rejected_with_the_error_of_openai(
    given: Object, strict: bool | None, words: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        answer_check(schema(given, strict=strict))
    error = envelope(caught.value)["error"]
    assert error["message"] is not None
    assert error["message"].startswith(f"Invalid schema for response_format 'point': {words}")
    assert error | {"message": None} == {
        "message": None,
        "type": "invalid_request_error",
        "param": "text.format.schema",
        "code": "invalid_json_schema",
    }
