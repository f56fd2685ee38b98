"""The functions that build schemas."""

from __future__ import annotations

import jsonschema_rs

from antiphon_edge.operations.forms import (
    INTEGER,
    STRING,
    any_of,
    array,
    const,
    doc,
    frame,
    mapping,
    nullable,
    one_of,
    record,
    schema_reference,
)


def test_record_schema_requires_its_members_and_allows_unknown_ones() -> None:
    schema = record({"id": STRING}, {"count": INTEGER}, description="A thing.")
    assert schema["description"] == "A thing."
    accepts = jsonschema_rs.validator_for(schema).is_valid
    assert accepts({"id": "a"})
    assert accepts({"id": "a", "count": 1, "new": True})
    assert not accepts({"count": 1})
    assert not accepts({"id": "a", "count": "1"})


def test_schema_of_each_kind_accepts_only_values_of_its_kind() -> None:
    schema = record(
        {
            "list": array(nullable(INTEGER)),
            "map": mapping(STRING),
            "kind": const("a"),
            "colour": doc(one_of(["red", "blue"]), "Of it."),
        }
    )
    accepts = jsonschema_rs.validator_for(schema).is_valid
    good = {"list": [1, None], "map": {"a": "b"}, "kind": "a", "colour": "red"}
    assert accepts(good)
    for bad in ({"list": ["1"]}, {"map": {"a": 1}}, {"kind": "b"}, {"colour": "green"}):
        assert not accepts(good | bad)


def test_named_schema_is_a_reference_into_the_document() -> None:
    assert schema_reference("Error") == {"$ref": "#/components/schemas/Error"}
    assert any_of("A", "B") == {"anyOf": [schema_reference("A"), schema_reference("B")]}


def test_frame_schema_names_the_schema_of_its_data() -> None:
    schema = frame("StreamEvent", "One of them.")
    assert schema["properties"]["data"]["anyOf"][1]["contentSchema"] == schema_reference("StreamEvent")
    assert schema["required"] == ["data"]
