from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.body import Parameters
from antiphon_translator.prompt import tools
from antiphon_translator.prompt.tools import Tool, ToolSet
from antiphon_translator.schemas.schema_budget import SchemaBudget

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "name": "get_weather", "description": "Tells it.", "parameters": SCHEMA, "strict": True}
EXEC = {"type": "custom", "name": "exec", "description": "Runs code."}
AGENTS = {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "close"}, EXEC]}


def offered(*declared: Any, choice: Any = None) -> ToolSet:
    body = {"model": "m", "tools": list(declared)} | ({} if choice is None else {"tool_choice": choice})
    parameters = Parameters.parse(dumps(body))
    return tools.offered(parameters.tools or [], parameters.tool_choice)


def names(found: tuple[Tool, ...]) -> list[str]:
    return [tool.shown_as for tool in found]


def test_request_without_tools_has_no_schemas() -> None:
    assert offered() == ToolSet()
    assert ToolSet().schemas is None


def test_function_is_shown_as_declared() -> None:
    (tool,) = offered(WEATHER).shown
    assert tool == Tool("get_weather", "get_weather", description="Tells it.", parameters=SCHEMA, strict=True)
    assert tool.as_function() == {
        "type": "function",
        "function": {"name": "get_weather", "description": "Tells it.", "parameters": SCHEMA},
    }


def test_boolean_property_is_shown_as_an_object() -> None:
    (tool,) = offered(WEATHER | {"parameters": {"type": "object", "properties": {"city": True}}, "strict": None}).shown
    assert tool.as_function()["function"]["parameters"]["properties"] == {"city": {}}


def test_custom_tool_is_shown_as_a_function_of_one_string() -> None:
    (tool,) = offered(EXEC).shown
    assert tool.is_custom
    assert tool.as_function()["function"]["parameters"]["properties"] == {"input": {"type": "string"}}


def test_namespaced_tool_is_found_by_its_flat_and_its_bare_name() -> None:
    found = offered(AGENTS, WEATHER)
    assert names(found.shown) == ["agents__close", "agents__exec", "get_weather"]
    for name in ("agents__close", "close"):
        assert (found.called(name).name, found.called(name).namespace) == ("close", "agents")


def test_ambiguous_bare_name_is_in_no_namespace() -> None:
    other = AGENTS | {"name": "others"}
    assert offered(AGENTS, other).called("close") == Tool("close", "close")


def test_call_of_an_unknown_tool_is_passed_on() -> None:
    assert offered(WEATHER).called("rm") == Tool("rm", "rm")


@pytest.mark.parametrize(
    ("choice", "callable_", "required"),
    [
        (None, ["get_weather", "exec"], False),
        ("auto", ["get_weather", "exec"], False),
        ("none", [], False),
        ("required", ["get_weather", "exec"], True),
        ({"type": "function", "name": "get_weather"}, ["get_weather"], True),
        ({"type": "custom", "name": "exec"}, ["exec"], True),
        ({"type": "allowed_tools", "mode": "auto", "tools": [EXEC]}, ["exec"], False),
        ({"type": "allowed_tools", "mode": "required", "tools": [EXEC]}, ["exec"], True),
    ],
)
def test_tool_choice_limits_the_callable_tools(choice: Any, callable_: list[str], required: bool) -> None:
    found = offered(WEATHER, EXEC, choice=choice)
    assert names(found.shown) == ["get_weather", "exec"]
    assert (names(found.callable), found.required) == (callable_, required)
    assert list(found.schemas or {}) == callable_


@pytest.mark.parametrize(
    ("declared", "choice", "field"),
    [
        ([WEATHER, WEATHER], None, "tools"),
        ([], "required", "tool_choice"),
        ([WEATHER], {"type": "function", "name": "exec"}, "tool_choice"),
        ([EXEC], {"type": "function", "name": "exec"}, "tool_choice"),
        ([WEATHER], {"type": "allowed_tools", "mode": "auto", "tools": [WEATHER, EXEC]}, "tool_choice.tools[1]"),
        ([WEATHER], {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}, "tool_choice.tools[0]"),
    ],
)
def test_duplicate_tool_or_choice_of_an_unknown_one_is_rejected(declared: list[Any], choice: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        offered(*declared, choice=choice)
    assert (caught.value.field, caught.value.code) == (field, "invalid_value")


def test_tools_in_an_input_item_are_offered() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [AGENTS]}
    found = tools.offered(tools.declared_in([{"type": "message"}, item], "input", SchemaBudget()), None)
    assert names(found.shown) == ["agents__close", "agents__exec"]


def test_invalid_tool_in_an_item_is_rejected_with_its_path() -> None:
    item = {"type": "additional_tools", "tools": [WEATHER, {"type": "function"}]}
    with pytest.raises(InvalidRequest) as caught:
        tools.declared_in([item], "input", SchemaBudget())
    assert caught.value.field == "input[0].tools[1].name"
    assert caught.value.message == "Missing required parameter: 'input[0].tools[1].name'."


def test_invalid_parameter_schema_is_rejected_with_its_path() -> None:
    bad = {"type": "function", "name": "g", "parameters": {"type": "strnig"}}
    item = {"type": "additional_tools", "tools": [WEATHER | {"strict": False}, bad]}
    with pytest.raises(InvalidRequest) as caught:
        tools.declared_in([{"type": "message"}, item], "input", SchemaBudget())
    assert (caught.value.field, caught.value.code) == ("input[1].tools[1].parameters", "invalid_function_parameters")
