from __future__ import annotations

import re

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.request.body import Parameters
from antiphon_translator.generation import Guide, GuideKind
from antiphon_translator.schemas import guides

ABLE = frozenset({"guide", "text_guide"})


def of(controls: frozenset[str] = ABLE, **request: object) -> Guide | None:
    return guides.of_request(Parameters.parse(dumps({"model": "m"} | request)), controls)


def test_request_without_a_guide_has_none_on_any_engine() -> None:
    assert of() is None
    assert of(frozenset(), nvext={"top_k": 1}) is None


@pytest.mark.parametrize(
    ("given", "guide"),
    [
        ({"guided_json": {"type": "object"}}, Guide(GuideKind.JSON_SCHEMA, '{"type":"object"}')),
        ({"guided_regex": "[0-9]+"}, Guide(GuideKind.REGEX, "[0-9]+")),
        ({"guided_grammar": 'root ::= "a"'}, Guide(GuideKind.EBNF, 'root ::= "a"')),
        ({"guided_choice": ["yes", "no"]}, Guide(GuideKind.REGEX, "(yes|no)")),
    ],
)
def test_each_extension_member_makes_its_guide(given: Object, guide: Guide) -> None:
    assert of(nvext=given) == guide


def test_guided_choice_matches_only_its_literal_texts() -> None:
    choices = ["1 + 1 (two)", "a|b", "[x]", "$5.00", "\\", "Ü-{}*?^"]
    guide = of(nvext={"guided_choice": choices})
    assert guide is not None
    assert [text for text in [*choices, "a", "1 ++ 1 two"] if re.fullmatch(guide.text, text)] == choices


def test_guide_for_an_engine_without_guides_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        of(frozenset(), nvext={"guided_regex": "a"})
    assert (caught.value.field, caught.value.code) == ("nvext.guided_regex", "unsupported_parameter")


def test_text_format_becomes_a_guide_in_written_order() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}
    guide = of(text={"format": {"type": "json_schema", "name": "n", "schema": schema}})
    assert guide is not None
    assert (guide.kind, loads(guide.text)) == (GuideKind.JSON_SCHEMA, schema)
    assert list(loads(guide.text)["properties"]) == ["b", "a"]  # the answer has this order
    json_object = of(text={"format": {"type": "json_object"}})
    assert json_object is not None
    assert json_object.kind is GuideKind.JSON
    assert of(text={"format": {"type": "text"}}) is None


def test_text_format_for_an_engine_without_guides_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        of(frozenset(), text={"format": {"type": "json_object"}})
    assert (caught.value.field, caught.value.code) == ("text.format", "unsupported_parameter")


@pytest.mark.parametrize("member", ["guided_regex", "guided_grammar", "guided_choice"])
def test_text_guide_for_an_engine_of_schemas_alone_is_rejected_with_its_member(member: str) -> None:
    with pytest.raises(InvalidRequest, match="takes JSON schemas only") as caught:
        of(frozenset({"guide"}), nvext={member: ["yes"] if member == "guided_choice" else "a"})
    assert (caught.value.field, caught.value.code) == (f"nvext.{member}", "unsupported_parameter")


def test_guided_json_that_cannot_guide_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        of(nvext={"guided_json": {"$ref": "#/nowhere"}})
    assert (caught.value.field, caught.value.code) == ("nvext.guided_json", "invalid_json_schema")
