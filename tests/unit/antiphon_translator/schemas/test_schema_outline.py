from __future__ import annotations

import pytest

from antiphon_core.jsons import Object
from antiphon_core.limits import SCHEMA_DEPTH_MAX
from antiphon_translator.schemas.schema_outline import KEYWORDS, InvalidSchema, Outline, Place, move_schema

STRING: Object = {"type": "string"}


def nested(levels: int) -> Object:
    schema: Object = {}
    for _ in range(levels - 1):
        schema = {"items": schema}
    return schema


def test_subschemas_are_found_in_written_order() -> None:
    outline = Outline(
        {
            "properties": {"b": {"items": STRING}, "a": {"anyOf": [STRING, True]}},
            "additionalProperties": False,
            "$defs": {"d": STRING},
        }
    )
    assert list(outline.places) == [
        (),
        ("properties", "b"),
        ("properties", "b", "items"),
        ("properties", "a"),
        ("properties", "a", "anyOf", "0"),
        ("properties", "a", "anyOf", "1"),
        ("additionalProperties",),
        ("$defs", "d"),
    ]


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_subschema_of_every_keyword_is_found(keyword: str) -> None:
    by_name = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
    value = {"x": STRING} if keyword in by_name else STRING
    (_, place) = Outline({keyword: value}).places.values()
    assert (place.schema, place.keyword, place.depth) == (STRING, keyword, 2)


def test_data_in_a_schema_is_not_read_as_a_schema() -> None:
    data = {"$ref": "http://x/", "type": "strnig"}
    schema = dict.fromkeys(("const", "default", "example", "x-y"), data) | {"enum": [data], "examples": [data]}
    assert list(Outline(schema).places) == [()]
    assert list(Outline({"dependencies": {"a": ["b"]}, "properties": {"$ref": True}}).places)[1:] == [
        ("properties", "$ref")
    ]


@pytest.mark.parametrize("wrong", [None, 5, "x", [5], {"a": 5}])
def test_malformed_subschemas_are_skipped(wrong: object) -> None:
    assert len(Outline(dict.fromkeys(KEYWORDS, wrong)).places) <= 1 + len(KEYWORDS)


def test_levels_count_nested_values_and_not_alternatives() -> None:
    outline = Outline({"properties": {"a": {"anyOf": [{"items": STRING}]}}, "$defs": {"d": {"items": STRING}}})
    levels = {place.path[-1]: place.level for place in outline.places.values() if place.path}
    assert levels == {"a": 1, "0": 1, "items": 1, "d": 0}
    assert outline.places["properties", "a", "anyOf", "0", "items"].level == 2


def test_schema_over_the_depth_limit_is_rejected() -> None:
    assert len(Outline(nested(SCHEMA_DEPTH_MAX)).places) == SCHEMA_DEPTH_MAX
    for levels in (SCHEMA_DEPTH_MAX + 1, 3_000):
        with pytest.raises(InvalidSchema, match="nested deeper than 32") as caught:
            Outline(nested(levels))
        assert caught.value.path == ("items",) * SCHEMA_DEPTH_MAX


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("#", ()),
        ("#/$defs/d", ("$defs", "d")),
        ("#/$defs/a~1b~0", ("$defs", "a/b~")),
        ("#/$defs/a%20b", ("$defs", "a b")),
        ("#/properties/p/anyOf/1", ("properties", "p", "anyOf", "1")),
        ("#here", ("$defs", "d")),
        ("#there", ("$defs", "a b")),
        ("#/$defs", None),
        ("#/$defs/nobody", None),
        ("#nowhere", None),
        ("#/", None),
        ("http://x/#/$defs/d", None),
        ("", None),
    ],
)
def test_references_are_resolved_to_subschemas(reference: str, path: tuple[str, ...] | None) -> None:
    outline = Outline(
        {
            "properties": {"p": {"anyOf": [STRING, STRING]}},
            "$defs": {"d": {"$anchor": "here"}, "a/b~": STRING, "a b": {"$dynamicAnchor": "there"}},
        }
    )
    target = outline.target(reference)
    assert (target.path if target is not None else None) == path


def one(place: Place) -> int:
    return 1


REF_A, REF_B = {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}


@pytest.mark.parametrize(
    ("schema", "loops"),
    [
        ({"$ref": "#"}, True),
        ({"anyOf": [{"$ref": "#"}, STRING]}, True),
        ({"not": {"$ref": "#"}}, True),
        ({"properties": {"x": REF_A}, "$defs": {"a": REF_B, "b": {"allOf": [REF_A]}}}, True),
        ({"$defs": {"a": REF_A}}, True),
        ({"properties": {"x": {"$ref": "#"}}}, False),
        ({"anyOf": [{"items": {"$ref": "#"}}, STRING]}, False),
        ({"anyOf": [REF_A, REF_A], "$defs": {"a": {"oneOf": [REF_B, REF_B]}, "b": STRING}}, False),
    ],
)
def test_schema_that_only_refers_to_itself_is_a_loop(schema: Object, loops: bool) -> None:
    assert (Outline(schema).loop() is not None) == loops


def test_weight_counts_a_definition_for_each_reference() -> None:
    assert Outline({"properties": {"x": STRING, "y": STRING}, "$defs": {"a": STRING}}).weight(one) == 2
    assert Outline({"properties": {"x": REF_A, "y": REF_A}, "$defs": {"a": {"items": STRING}}}).weight(one) == 4
    assert Outline({"allOf": [REF_A, REF_A], "$defs": {"a": {"items": STRING}}}).weight(one) == 7
    assert Outline({"properties": {"x": {"$ref": "#"}}}).weight(one) == 3
    assert Outline({"items": STRING}).weight(lambda place: 10 if place.path else 1) == 11


def test_weight_counts_one_of_the_schemas_for_named_members() -> None:
    two = {"allOf": [STRING]}
    assert Outline({"properties": {"x": STRING, "y": two}, "additionalProperties": STRING}).weight(one) == 4
    assert Outline({"prefixItems": [STRING, two], "items": STRING}).weight(one) == 4
    assert Outline({"patternProperties": {"x": STRING, "y": two}}).weight(one) == 4


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_weight_counts_schemas_beside_unevaluated_parts_twice(keyword: str) -> None:
    assert Outline({"allOf": [STRING, STRING], keyword: STRING}).weight(one) == 1 + 2 * 2 + 1


def test_schemas_beside_unevaluated_parts_are_counted_at_each_reference() -> None:
    counted = {"allOf": [REF_A, REF_A], "unevaluatedItems": False, "$defs": {"a": {"anyOf": [STRING, STRING]}}}
    assert Outline(counted).unevaluated_nodes == 1 + 2 * (1 + 1 + 2)
    assert Outline({"allOf": [REF_A], "$defs": {"a": STRING}}).unevaluated_nodes == 0


def test_weight_of_an_exponential_schema_takes_no_exponential_time() -> None:
    doubling = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(4_000)}
    outline = Outline({"$ref": "#/$defs/a0", "$defs": doubling | {"a4000": STRING}})
    assert outline.weight(one) > 2**4_000
    assert outline.loop() is None
    assert not outline.is_recursive


def test_recursive_schema_is_detected() -> None:
    assert Outline({"properties": {"x": {"$ref": "#"}}}).is_recursive
    assert not Outline({"properties": {"x": REF_A, "y": REF_A}, "$defs": {"a": STRING}}).is_recursive


def test_invalid_schema_message_has_the_path() -> None:
    assert str(InvalidSchema(("properties", "a"), "it is odd.")) == "In context=('properties', 'a'), it is odd."


def test_keyword_of_another_kind_reads_as_empty() -> None:
    place = Place((), {"enum": 5, "pattern": "x"})
    assert (place.get("enum", list), place.get("pattern", str), place.get("properties", dict)) == ([], "x", {})
    assert Place((), True).get("enum", list) == []


def test_moved_schema_refers_to_itself_in_its_new_place() -> None:
    schema: Object = {"$schema": "x", "items": {"$ref": "#/$defs/a"}, "const": {"$ref": "#"}, "$defs": {"a": STRING}}
    assert Outline(schema).has_references
    assert not Outline({"const": {"$ref": "#"}}).has_references
    found = move_schema(schema, "#/$defs/here")
    assert found == {"items": {"$ref": "#/$defs/here/$defs/a"}, "const": {"$ref": "#"}, "$defs": {"a": STRING}}
    assert schema["items"] == {"$ref": "#/$defs/a"}
    assert move_schema({"not": {"$ref": "#"}, "items": {"$ref": "#b"}}, "#/x") == {
        "not": {"$ref": "#/x"},
        "items": {"$ref": "#b"},
    }


def test_moved_schema_has_pointers_in_place_of_its_anchors() -> None:
    schema: Object = {"items": {"$ref": "#a"}, "not": {"$dynamicRef": "#b"}, "$defs": {"x/ y": {"$anchor": "a"}}}
    found = move_schema(schema | {"$dynamicAnchor": "b"}, "#/$defs/here")
    assert found == {
        "items": {"$ref": "#/$defs/here/$defs/x~1%20y"},
        "not": {"$dynamicRef": "#/$defs/here"},
        "$defs": {"x/ y": {}},
    }
    around = Outline({"$defs": {"here": found, "other": move_schema(schema, "#/$defs/other")}})
    assert around.target(found["items"]["$ref"]) is around.places[("$defs", "here", "$defs", "x/ y")]
