from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.error_forms import envelope
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import Parameters
from antiphon_translator.schemas import schemas, tool_schemas
from antiphon_translator.schemas.schema_budget import SchemaBudget

CLOSED: Object = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def function(parameters: Any, **members: Any) -> Object:
    return {"type": "function", "name": "f", "parameters": parameters} | members


def require(*tools: Object) -> None:
    declared = Parameters.parse(dumps({"model": "m", "tools": list(tools)})).tools
    tool_schemas.require(declared or [], "tools", SchemaBudget())


SENT: dict[str, Object] = {
    "no parameters": {"type": "function", "name": "f"},
    "null": function(None),
    "null, strict": function(None, strict=True),
    "an empty object": function({}),
    "no properties": function({"type": "object"}),
    "Codex": function(
        {
            "type": "object",
            "properties": {
                "cmd": {"type": "string", "description": "Shell command to execute."},
                "justification": {"type": "string"},
                "max_output_tokens": {"type": "number"},
                "tty": {"type": "boolean"},
            },
            "required": ["cmd"],
            "additionalProperties": False,
        },
        strict=False,
    ),
    "an MCP server made with zod": function(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "path": {"type": "string", "format": "path", "pattern": "^(?!\\.)\\S+$"},
                "range": {"type": "array", "items": [{"type": "number"}, {"type": "number"}], "minItems": 2},
                "any": {},
                "map": {"type": "object", "additionalProperties": {}, "propertyNames": {"type": "string"}},
                "maybe": {"anyOf": [{"not": {}}, {"type": "string"}]},
            },
        }
    ),
    "an MCP server made with FastMCP": function(
        {
            "title": "searchArguments",
            "type": "object",
            "properties": {
                "query": {"title": "Query", "type": "string"},
                "filter": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}], "default": None},
            },
            "$defs": {"Filter": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}},
        }
    ),
    "a schema of its own kind": function({"$schema": "https://modelcontextprotocol.io/schema", "type": "object"}),
    "OpenAPI's words": function({"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}),
    "a reference to nowhere": function({"type": "object", "properties": {"a": {"$ref": "#/$defs/lost"}}}),
    "alternatives at the root": function({"anyOf": [{"type": "object"}, {"required": ["a"]}]}),
    "an object or nothing": function({"type": ["object", "null"]}),
    "strict": function(CLOSED | {"properties": {"a": {"type": "string"}}, "required": ["a"]}, strict=True),
    "a custom tool": {"type": "custom", "name": "c", "format": {"type": "text"}},
}


@pytest.mark.parametrize("tool", SENT.values(), ids=SENT.keys())
def test_tool_schemas_of_known_clients_are_accepted(tool: Object) -> None:
    require(tool)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (
            function({"type": "strnig"}),
            "In context=('type',), 'type' must be one of array, boolean, integer, null, number, object, string, "
            "or a list of some, but is 'strnig'.",
        ),
        (
            function({"type": "object", "properties": {"a": {"items": {"type": ["string", "nul"]}}}}),
            "In context=('properties', 'a', 'items', 'type'), 'type' must be one of array, ",
        ),
        (function({"type": "object", "properties": {"type": "object"}}), "In context=('properties', 'type'), "),
        (function({"type": "object", "required": True}), "In context=('required',), "),
        (function({"type": "string"}), "In context=(), the schema must have type 'object', but has type 'string'."),
        (function({"type": ["string", "null"]}), "In context=(), the schema must have type 'object', but has"),
        (function({"$ref": "http://127.0.0.1:9/"}), "In context=('$ref',), '$ref' must refer to a place in the schema"),
        (function({"type": "object"}, strict=True), "In context=(), 'additionalProperties' is required"),
        (function({}, strict=True), "In context=(), the schema must have type 'object'"),
        (
            function(
                CLOSED | {"properties": {"a": {"type": "string", "pattern": "("}}, "required": ["a"]}, strict=True
            ),
            "In context=('properties', 'a', 'pattern'), this is not a regular expression",
        ),
        (
            function(CLOSED | {"properties": {"a": {"$ref": "#/lost"}}, "required": ["a"]}, strict=True),
            "In context=('properties', 'a', '$ref'), there is no schema at '#/lost'.",
        ),
    ],
)
def test_invalid_tool_schema_is_rejected_with_the_error_of_openai(tool: Object, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        require({"type": "custom", "name": "c"}, tool)
    error = envelope(caught.value)["error"]
    assert error["message"] is not None
    assert error["message"].startswith(f"Invalid schema for function 'f': {words}")
    assert error | {"message": None} == {
        "message": None,
        "type": "invalid_request_error",
        "param": "tools[1].parameters",
        "code": "invalid_function_parameters",
    }


def test_invalid_schema_of_a_namespaced_tool_is_rejected() -> None:
    namespace = {"type": "namespace", "name": "n", "tools": [function({}), function({"type": 5}, name="g")]}
    with pytest.raises(InvalidRequest, match="function 'g'") as caught:
        require(namespace)
    assert caught.value.field == "tools[0].tools[1].parameters"


def test_repeated_tool_schema_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = function({"type": "object", "description": "test_tools_that_come_again"})
    require(tool)
    monkeypatch.setattr(schemas, "require_schema", lambda _: pytest.fail("the schema was validated again"))
    require(tool)
    with pytest.raises(pytest.fail.Exception):
        require(function(tool["parameters"], strict=True))  # strict schemas are cached separately


def test_invalid_grammar_of_a_custom_tool_is_rejected_with_its_path() -> None:
    def custom(definition: str) -> Object:
        form = {"type": "grammar", "syntax": "regex", "definition": definition}
        return {"type": "custom", "name": "c", "format": form}

    require(custom("a+"))
    with pytest.raises(InvalidRequest) as caught:
        require(custom("a+"), {"type": "namespace", "name": "n", "tools": [custom("(")]})
    assert (caught.value.field, caught.value.code) == ("tools[1].tools[0].format.definition", "invalid_value")
