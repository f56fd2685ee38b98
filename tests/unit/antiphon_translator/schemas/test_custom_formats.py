"""Formats of custom tools: which become patterns, which are only shown, and which are rejected."""

from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.request.tools import GrammarInput, PlainInput
from antiphon_translator.schemas import custom_formats


def grammar(definition: str, syntax: str = "regex") -> GrammarInput:
    return GrammarInput.model_validate({"type": "grammar", "syntax": syntax, "definition": definition})


@pytest.mark.parametrize("given", [None, PlainInput(type="text")])
def test_input_without_a_grammar_is_a_plain_string(given: PlainInput | None) -> None:
    schema = custom_formats.input_schema(given)
    assert schema["properties"] == {"input": {"type": "string"}}
    assert (schema["required"], schema["additionalProperties"]) == (["input"], False)


@pytest.mark.parametrize(
    ("definition", "pattern"),
    [
        ("a+", "^(a+)$"),
        ("(a|b?){1,3}c{2,}d*", "^((a|b?){1,3}c{2,}d*)$"),
        ("^a|b$", "^(a|b)$"),
        (r"\d{4}-\d{2}", "^([0-9]{4}-[0-9]{2})$"),
        (r"[\d,]+\w", "^([0-9,]+[a-zA-Z0-9_])$"),
        (r"\(\[d\]w", r"^(\(\[d\]w)$"),
        ("([a-z]+ )*[A-Z0-9_é-]", "^(([a-z]+ )*[A-Z0-9_é-])$"),
        (r"\[x\]\?", r"^(\[x\]\?)$"),
    ],
)
def test_plain_regular_expression_becomes_a_pattern(definition: str, pattern: str) -> None:
    assert custom_formats.can_be_held(grammar(definition))
    schema = custom_formats.input_schema(grammar(definition))
    assert schema["properties"]["input"] == {"type": "string", "pattern": pattern}


@pytest.mark.parametrize(
    "definition",
    [
        ".*",
        '"a"',
        r"a\\b",
        r"\s+",
        r"\n",
        "a\nb",
        "[^a]",
        "[ -~]",
        r"[\\]",
        r"[\]]",
        r"\-",
        "(?i)a",
        "(?:a)",
        "a+?",
        "a++",
        "a{2}?",
        "a{2}{3}",
        "a}",
        r"\ba",
        r"a\$",
        "a^b",
        "^*a",
        "^{2}a$",
    ],
)
def test_pattern_of_texts_that_json_escapes_is_shown_and_does_not_guide(definition: str) -> None:
    assert not custom_formats.can_be_held(grammar(definition))
    shown = custom_formats.input_schema(grammar(definition))["properties"]["input"]
    assert "pattern" not in shown
    assert shown["description"] == f"It must match this regular expression:\n{definition}"


def test_lark_grammar_is_shown_and_does_not_guide() -> None:
    lark = grammar('start: "a"+', "lark")
    assert not custom_formats.can_be_held(lark)
    shown = custom_formats.input_schema(lark)["properties"]["input"]
    assert shown == {"type": "string", "description": 'It must match this Lark grammar:\nstart: "a"+'}


@pytest.mark.parametrize("definition", ["(", "[a", "a{2", "*", "a(?=b)", r"(a)\1", "a{1000000}"])
def test_invalid_regular_expression_is_rejected(definition: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        custom_formats.require(grammar(definition), "tools[3].format")
    assert (caught.value.field, caught.value.code) == ("tools[3].format.definition", "invalid_value")


@pytest.mark.parametrize("given", [grammar("a+"), grammar("(?i)a"), grammar(r"\p{L}"), grammar("(", "lark")])
def test_valid_regular_expression_and_any_lark_grammar_are_accepted(given: GrammarInput) -> None:
    custom_formats.require(given, "tools[0].format")
