from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.body import Parameters
from antiphon_translator.prompt import declarations, tools
from antiphon_translator.prompt.tools import Tool, ToolSet
from antiphon_translator.schemas.schema_budget import SchemaBudget

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "name": "get_weather", "description": "Tells it.", "parameters": SCHEMA, "strict": True}
EXEC = {"type": "custom", "name": "exec", "description": "Runs code."}
SEARCH: dict[str, Any] = {"type": "tool_search", "execution": "client"}
DEFERRED = {"defer_loading": True}
ETA: dict[str, Any] = {"type": "function", "name": "get_eta", "parameters": SCHEMA}
AGENTS = {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "close"}, EXEC]}


def offered(*declared: Any, choice: Any = None) -> ToolSet:
    body = {"model": "m", "tools": list(declared)} | ({} if choice is None else {"tool_choice": choice})
    parameters = Parameters.parse(dumps(body))
    return tools.offered_tools(declarations.at("tools", parameters.tools or []), parameters.tool_choice)


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
        assert (found.tool_of_call(name).name, found.tool_of_call(name).namespace) == ("close", "agents")


def test_ambiguous_bare_name_is_in_no_namespace() -> None:
    other = AGENTS | {"name": "others"}
    assert offered(AGENTS, other).tool_of_call("close") == Tool("close", "close")


def test_call_of_an_unknown_tool_is_passed_on() -> None:
    assert offered(WEATHER).tool_of_call("rm") == Tool("rm", "rm")


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
    assert (names(found.callable), found.requires_call) == (callable_, required)
    assert list(found.schemas or {}) == callable_


@pytest.mark.parametrize(
    ("declared", "choice", "field"),
    [
        ([WEATHER, WEATHER], None, "tools[1]"),
        ([AGENTS, AGENTS], None, "tools[1].tools[0]"),
        ([WEATHER | {"name": "tool_search"}, SEARCH], None, "tools[1]"),
        ([WEATHER | DEFERRED, SEARCH], {"type": "function", "name": "get_weather"}, "tool_choice"),
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


def in_turn(*declared: Any, history: Any = (), given: Any = ()) -> ToolSet:
    """The tools of a turn whose request declares some, and whose items have found others."""
    parameters = Parameters.parse(dumps({"model": "m", "tools": list(declared)}))
    items = [
        each
        for where, found in (("history", history), ("input", given))
        for each in declarations.in_items([_found(*tools) for tools in found], where, SchemaBudget())
    ]
    return tools.offered_tools([*declarations.at("tools", parameters.tools or []), *items], None)


def _found(*listed: Any) -> dict[str, Any]:
    return {"type": "tool_search_output", "tools": list(listed)}


def test_search_is_shown_with_its_own_description_and_parameters_or_the_default_ones() -> None:
    (plain,) = offered(SEARCH).shown
    assert plain.client is not None
    assert (plain.description, plain.parameters) == (plain.client.description, plain.client.parameters)
    (own,) = offered(SEARCH | {"description": "Finds.", "parameters": SCHEMA}).shown
    assert (own.shown_as, own.description, own.parameters) == ("tool_search", "Finds.", SCHEMA)


def test_deferred_tools_are_shown_behind_the_others_when_they_are_found() -> None:
    declared = (ETA | DEFERRED, AGENTS | {"tools": [EXEC | DEFERRED, *AGENTS["tools"][:1]]}, SEARCH)
    assert names(in_turn(*declared).shown) == ["agents__close", "tool_search"]
    found = in_turn(*declared, history=[[ETA | DEFERRED]], given=[[AGENTS | {"tools": [EXEC]}]])
    assert names(found.shown) == ["agents__close", "tool_search", "get_eta", "agents__exec"]


def test_found_tool_needs_no_search_any_more() -> None:
    assert names(in_turn(ETA | DEFERRED, history=[[ETA]]).shown) == ["get_eta"]
    assert names(in_turn(given=[[ETA | DEFERRED]]).shown) == ["get_eta"]


def test_same_tool_may_be_found_again() -> None:
    found = in_turn(ETA, history=[[AGENTS, ETA]], given=[[ETA], [AGENTS, SEARCH], [SEARCH]])
    assert names(found.shown) == ["get_eta", "agents__close", "agents__exec", "tool_search"]


@pytest.mark.parametrize(
    ("declared", "found", "description"),
    [
        ([SEARCH], {"history": [[ETA | {"description": "old"}]], "given": [[ETA | {"description": "new"}]]}, "new"),
        ([SEARCH], {"given": [[ETA | {"description": "old"}], [ETA | {"description": "new"}]]}, "new"),
        ([ETA | {"description": "own"}], {"history": [[ETA | {"description": "old"}]]}, "own"),
        ([ETA | DEFERRED | {"description": "own"}, SEARCH], {"history": [[ETA | {"description": "old"}]]}, "own"),
    ],
)
def test_newest_definition_of_a_found_tool_counts_behind_that_of_the_request(
    declared: list[Any], found: Any, description: str
) -> None:
    (tool,) = (each for each in in_turn(*declared, **found).shown if each.shown_as == "get_eta")
    assert tool.description == description


@pytest.mark.parametrize(
    ("declared", "found", "field", "code"),
    [
        ([ETA | DEFERRED], {}, "tools[0].defer_loading", "unsupported_parameter"),
        ([EXEC | DEFERRED], {"given": [[ETA]]}, "tools[0].defer_loading", "unsupported_parameter"),
        ([AGENTS | {"tools": [EXEC | DEFERRED]}], {}, "tools[0].tools[0].defer_loading", "unsupported_parameter"),
        ([ETA | DEFERRED, ETA | DEFERRED, SEARCH], {}, "tools[1]", "invalid_value"),
    ],
)
def test_tool_that_cannot_be_found_or_is_declared_twice_is_rejected(
    declared: list[Any], found: Any, field: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        in_turn(*declared, **found)
    assert (caught.value.field, caught.value.code) == (field, code)
