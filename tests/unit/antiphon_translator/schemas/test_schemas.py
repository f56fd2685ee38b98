from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.jsons import Object
from antiphon_core.limits import SCHEMA_BYTES_MAX
from antiphon_translator.schemas import normal_form, schemas, strict_schemas
from antiphon_translator.schemas.schema_outline import KEYWORDS, InvalidSchema, Outline

STRING: Object = {"type": "string"}
DRAFT_07 = "http://json-schema.org/draft-07/schema#"


def guidable(schema: Object) -> Outline:
    return schemas.read_guidable(schema)


def refusal(schema: Object) -> InvalidSchema:
    with pytest.raises(InvalidSchema) as caught:
        schemas.compile_validator(guidable(schema))
    return caught.value


def with_patterns(*patterns: str) -> Object:
    return {"properties": {f"p{i}": {"pattern": pattern} for i, pattern in enumerate(patterns)}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": ["string", "null"], "format": "no-such-format", "nullable": True, "x-order": 3, "example": None},
        {"$schema": DRAFT_07, "items": [STRING, STRING], "definitions": {"a": STRING}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [STRING]},
        {"$schema": "https://example.com/our-own-schema"},
        {"$schema": ""},
        {"$schema": 5},
        {"pattern": "("},
        {"properties": {"a": {"$ref": "#/$defs/nobody"}}},
        {"properties": {"$ref": {"type": "string"}, "type": {"type": "string"}}},
        {"const": {"$ref": "http://example.com/"}, "default": {"type": "strnig"}},
    ],
)
def test_odd_but_harmless_schema_is_accepted(schema: Object) -> None:
    schemas.read(schema)


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        ({"type": "strnig"}, "type", "strnig"),
        ({"properties": {"a": {"type": "strnig"}}}, "properties a type", "strnig"),
        ({"properties": {"type": "object"}}, "properties type", "not of types"),
        ({"required": True}, "required", "not of type"),
        ({"properties": {"a": {"required": True}}}, "properties a required", "not of type"),
        ({"items": [STRING]}, "items", "not of types"),
        ({"anyOf": [STRING, {"minLength": -1}]}, "anyOf 1 minLength", "minimum"),
        ({"$ref": 5}, "$ref", "not of type"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "$ref": 5}, "$ref", "must refer to a place"),
        ({"$ref": "http://example.com/schema"}, "$ref", "must refer to a place in the schema itself"),
        ({"$ref": "//example.com/schema"}, "$ref", "must refer to a place in the schema itself"),
        ({"$ref": "other.json#/a"}, "$ref", "must refer to a place in the schema itself"),
        ({"$id": "http://example.com/", "$ref": "http://example.com/#"}, "$ref", "must refer to a place"),
        ({"allOf": [{"$dynamicRef": "file:///etc/passwd"}]}, "allOf 0 $dynamicRef", "must refer to a place"),
        ({"if": {"$recursiveRef": "http://x/"}}, "if $recursiveRef", "must refer to a place"),
        ({"description": "x" * SCHEMA_BYTES_MAX}, "", "at most 262144"),
        ({"const": 10**30}, "", "cannot be written as JSON"),
        ({"const": "\ud800"}, "", "cannot be written as JSON"),
    ],
)
def test_malformed_schema_is_rejected_with_its_path(schema: Object, path: str, words: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        schemas.read(schema)
    assert caught.value.path == tuple(path.split())
    assert words in caught.value.message


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": STRING}},
        {"properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
        {"$schema": DRAFT_07, "$ref": "#/definitions/a", "definitions": {"a": STRING}},
        {"$id": "https://example.com/mine", "$ref": "#here", "$defs": {"a": {"$anchor": "here"}}},
        {"oneOf": [STRING, {"type": "null"}], "minProperties": 2, "uniqueItems": True},
        with_patterns(
            "^[a-z]+$", r"^\d{4}-\d\d$", r"^[\w.-]+@[\w.-]+\.\w{2,}$", r"^(?:a|b)(?<year>\d)\s\.\\b$", "[(?=]"
        ),
        with_patterns("^(a+)+$", "^.{1,800}$"),
        with_patterns(*["^(?:\\d\\d[2468][048])-02-29$"] * 500),
    ],
)
def test_schema_that_can_guide_is_compiled(schema: Object) -> None:
    schemas.compile_validator(guidable(schema))


def copied(levels: int, *, keyword: str, beside: str) -> Object:
    """A schema of 2 KB of which the validator would make 2^levels copies."""
    names = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2, beside: True} for n in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": names | {f"a{levels}": {"type": ["object", "array"]}}}


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        ({"$ref": "#/$defs/a"}, "$ref", "there is no schema at '#/$defs/a'"),
        ({"properties": {"a": {"$ref": "#nobody"}}}, "properties a $ref", "there is no schema at '#nobody'"),
        ({"$ref": "#/x", "x": STRING}, "$ref", "there is no schema at '#/x'"),
        ({"$ref": "#"}, "", "no finite value can match"),
        ({"$defs": {"a": {"$id": "http://x/", "type": "string"}}}, "$defs a $id", "not permitted within a schema"),
        (
            {"$schema": DRAFT_07, "properties": {"a": {"items": [STRING]}}},
            "properties a items",
            "not of types",
        ),
        ({"properties": {f"p{i}": True for i in range(5_001)}}, "", "5001 properties; at most 5000"),
        (copied(24, keyword="anyOf", beside="unevaluatedItems"), "", "at most 5000 are possible"),
        (copied(24, keyword="allOf", beside="unevaluatedProperties"), "", "'unevaluatedItems', counted at each"),
        ({"anyOf": [{"enum": [1] * 600}] * 2}, "", "1200 enum values; at most 1000"),
        ({"enum": ["x" * 1_000] * 121}, "", "121000 characters"),
        (with_patterns("("), "properties p0 pattern", "not a regular expression"),
        (with_patterns("\\S{700}"), "properties p0 pattern", "takes too much memory"),
        (with_patterns("ok", "a{1000}{1000}"), "properties p1 pattern", "1000002 us to compile; at most 100000"),
        (with_patterns("x" * 1_001), "properties p0 pattern", "at most 1000 characters"),
        (with_patterns("ok", "^(?!a)"), "properties p1 pattern", "'(?!': lookahead"),
        (with_patterns("(?<=a)b"), "properties p0 pattern", "'(?<=': lookahead"),
        (with_patterns(r"(a)\1"), "properties p0 pattern", r"'\\1': backreferences"),
        (with_patterns(r"\bword\b"), "properties p0 pattern", "word boundaries"),
        (with_patterns(r"^\p{L}+$"), "properties p0 pattern", "Unicode classes"),
        (with_patterns(r"^[\p{L} ]+$"), "properties p0 pattern", "Unicode classes"),
        (with_patterns("(?i)a"), "properties p0 pattern", "groups with flags"),
        ({"patternProperties": {"(?=a)": True}}, "patternProperties (?=a)", "lookahead"),
        (with_patterns(*(f"a{i}" for i in range(33))), "", "33 different patterns; at most 32"),
    ],
)
def test_schema_that_cannot_guide_is_rejected_with_its_path(schema: Object, path: str, words: str) -> None:
    found = refusal(schema)
    assert found.path == tuple(path.split())
    assert words in found.message


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"enum": [1] * 100_000}, "100000 enum values; at most 1000"),
        ({"enum": [f"v{number}" for number in range(25_000)]}, "25000 enum values; at most 1000"),
        ({"properties": {f"p{number}": {} for number in range(15_000)}}, "15000 properties; at most 5000"),
        ({"anyOf": [{}] * 80_000}, "80001 schemas in each other; at most 20000"),
        ({"prefixItems": [True] * 50_000}, "50001 schemas in each other; at most 20000"),
    ],
)
def test_long_lists_of_a_schema_are_rejected_before_their_elements_are_checked(
    schema: Object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks took up to 2.7 s."""
    for module, check in ((normal_form, "require_possible"), (schemas, "_require_metaschema")):
        monkeypatch.setattr(module, check, None)
    assert words in refusal(schema).message


def test_enum_with_thousands_of_values_is_read_where_it_need_not_guide() -> None:
    schemas.read({"properties": {"product": {"enum": [f"product {number}" for number in range(5_000)]}}})


@pytest.mark.parametrize(("levels", "words"), [(100, "nested deeper than 32"), (3_000, "cannot be written as JSON")])
def test_deeply_nested_schema_is_rejected(levels: int, words: str) -> None:
    deep: Object = {}
    for _ in range(levels):
        deep = {"properties": {"a": deep}}
    assert words in refusal(deep).message


# ---- Random schemas ----

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # typical parts of schemas, so that some of the random schemas pass the first checks
    | st.sampled_from(["object", "string", "integer", "#", "#/$defs/a", "http://127.0.0.1:9/", "^(a+)+$", "", "é"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*KEYWORDS, *strict_schemas.REMARKS, *strict_schemas.DECISIVE, "type", "enum", "required"])
            | st.sampled_from(["a", "pattern", "format", "minimum", "maximum", "minLength", "$anchor", "$dynamicRef"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*KEYWORDS, "type", "$ref", "$schema", "$id", "enum", "const"]), VALUES))
def test_any_schema_is_accepted_or_rejected_without_another_error(schema: Object) -> None:
    with suppress(InvalidSchema):
        outline = guidable(schema)
        schemas.compile_validator(outline)
        strict_schemas.require(outline)
