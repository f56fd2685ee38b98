from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_translator.prompt import declarations
from antiphon_translator.schemas.schema_budget import SchemaBudget

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
EXEC = {"type": "custom", "name": "exec", "defer_loading": True}


def in_items(*items: Any) -> list[declarations.Declaration]:
    return declarations.in_items(items, "input", SchemaBudget(), first=2)


def test_tools_in_items_are_declared_with_their_paths() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [WEATHER, EXEC]}
    listed = {"type": "tool_search_output", "execution": "server", "tools": [EXEC]}
    found = in_items({"type": "message"}, added, "?", listed, {"type": "tool_search_output"})
    assert [(each.tool.name, each.path, each.is_found) for each in found] == [
        ("get_weather", "input[3].tools[0]", False),
        ("exec", "input[3].tools[1]", False),
        ("exec", "input[5].tools[0]", True),
    ]


def test_invalid_tool_in_an_item_is_rejected_with_its_path() -> None:
    with pytest.raises(InvalidRequest) as caught:
        in_items({"type": "additional_tools", "tools": [WEATHER, {"type": "function"}]})
    assert caught.value.field == "input[2].tools[1].name"
    assert caught.value.message == "Missing required parameter: 'input[2].tools[1].name'."


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "name": "g", "parameters": {"type": "strnig"}},
        {"type": "tool_search", "execution": "client", "parameters": {"type": "strnig"}},
    ],
)
def test_invalid_parameter_schema_is_rejected_with_its_path(tool: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        in_items({"type": "message"}, {"type": "tool_search_output", "tools": [EXEC, tool]})
    assert (caught.value.field, caught.value.code) == ("input[3].tools[1].parameters", "invalid_function_parameters")


def test_tools_of_a_server_that_cannot_be_shown_are_left_out_of_its_list_and_of_the_budget() -> None:
    odd = {"name": "odd", "input_schema": {"type": "object", "properties": {"a": {"$ref": "https://x.example/s"}}}}
    fit = {"name": "fit", "input_schema": WEATHER["parameters"]}
    alone, beside = SchemaBudget(), SchemaBudget()
    listed = {"type": "mcp_list_tools", "server_label": "s"}
    declarations.in_items([listed | {"tools": [fit]}], "input", alone)
    (found,) = declarations.in_items([listed | {"tools": [odd, fit]}], "input", beside)
    assert [
        (tool.name, function.name) for tool, function in zip(found.tool.tools, found.tool.functions, strict=True)
    ] == [("fit", "s__fit")]
    assert alone.spent == beside.spent
