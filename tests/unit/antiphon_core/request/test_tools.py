from __future__ import annotations

from typing import Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.body import Parameters

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "more": 1}
GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "a+"}


def custom(form: Any) -> dict[str, Any]:
    return {"type": "custom", "name": "c", "format": form}


def parse(**members: Any) -> Parameters:
    return Parameters.parse(dumps({"model": "m"} | members))


def test_tools_come_back_as_they_were_declared() -> None:
    tools = [
        FUNCTION,
        {"type": "custom", "name": "exec", "format": {"type": "text"}},
        {"type": "custom", "name": "re", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}},
        {"type": "custom", "name": "lark", "format": {"type": "grammar", "syntax": "lark", "definition": "start: A"}},
        {"type": "namespace", "name": "n", "tools": [FUNCTION]},
        FUNCTION | {"async": True, "defer_loading": True, "allowed_callers": ["direct"], "output_schema": {}},
        {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {}},
    ]
    assert parse(tools=tools).as_json()["tools"] == tools


@pytest.mark.parametrize(
    "choice",
    [
        "none",
        "auto",
        "required",
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "exec"},
        {"type": "tool_search"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    ],
)
def test_every_form_of_choice_is_read(choice: Any) -> None:
    assert parse(tool_choice=choice).as_json()["tool_choice"] == choice


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        ({"tools": [{"type": "function", "name": "f g"}]}, "tools[0].name", "invalid_value"),
        ({"tools": [{"type": "function", "name": "x" * 65}]}, "tools[0].name", "string_above_max_length"),
        ({"tools": [{"type": "function"}]}, "tools[0].name", "missing_required_parameter"),
        ({"tools": [{"name": "f"}]}, "tools[0].type", "missing_required_parameter"),
        ({"tools": [custom({})]}, "tools[0].format.type", "missing_required_parameter"),
        ({"tools": [custom({"type": "x"})]}, "tools[0].format.type", "invalid_value"),
        ({"tools": [custom({"type": "text", "x": 1})]}, "tools[0].format.x", "unknown_parameter"),
        ({"tools": [custom({"type": "grammar"})]}, "tools[0].format.syntax", "missing_required_parameter"),
        ({"tools": [custom(GRAMMAR | {"syntax": "ebnf"})]}, "tools[0].format.syntax", "invalid_value"),
        ({"tools": [custom(GRAMMAR | {"definition": ""})]}, "tools[0].format.definition", "string_below_min_length"),
        ({"tools": [custom(GRAMMAR | {"definition": 5})]}, "tools[0].format.definition", "invalid_type"),
        ({"tools": [{"type": "file_search"}]}, "tools[0]", "unsupported_value"),
        ({"tools": [{"type": "tool_search"}]}, "tools[0]", "unsupported_value"),
        ({"tools": [{"type": "tool_search", "execution": "server"}]}, "tools[0]", "unsupported_value"),
        ({"tools": [{"type": "tool_search", "execution": "both"}]}, "tools[0].execution", "invalid_value"),
        ({"tools": [{"type": "tool_search", "execution": 5}]}, "tools[0].execution", "invalid_value"),
        (
            {"tools": [FUNCTION | {"allowed_callers": ["programmatic"]}]},
            "tools[0].allowed_callers",
            "unsupported_parameter",
        ),
        ({"tools": [{"type": "no_such"}]}, "tools[0].type", "invalid_value"),
        ({"tools": ["f"]}, "tools[0]", "invalid_type"),
        ({"tools": {}}, "tools", "invalid_type"),
        ({"tools": [FUNCTION] * (limits.TOOLS_ITEMS_MAX + 1)}, "tools", "array_above_max_length"),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "custom"}]}]},
            "tools[0].tools[0].name",
            "missing_required_parameter",
        ),
        ({"tool_choice": "any"}, "tool_choice", "invalid_value"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice", "unsupported_value"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name", "missing_required_parameter"),
        (
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
            "tool_choice.tools",
            "array_below_min_length",
        ),
    ],
)
def test_an_invalid_tool_or_tool_choice_is_rejected_with_its_path(
    members: dict[str, Any], field: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**members)
    assert (caught.value.field, caught.value.code) == (field, code)
