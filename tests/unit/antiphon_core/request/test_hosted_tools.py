from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
from openai.types.responses import tool_param

from antiphon_core.jsons import Object
from antiphon_core.request import hosted_tools

FUNCTION: Object = {"type": "function", "name": "f"}
SEARCH: Object = {"type": "web_search", "external_web_access": True}


def test_hosted_tools_are_left_out_wherever_they_stand_and_named_once() -> None:
    brought: Object = {"type": "additional_tools", "tools": [SEARCH, FUNCTION]}
    given: Object = {"tools": [SEARCH, FUNCTION, {"type": "mcp"}], "input": [brought, {"role": "user"}, "?"]}
    assert hosted_tools.drop_hosted_tools(given) == {
        "tools": [FUNCTION],
        "input": [brought | {"tools": [FUNCTION]}, {"role": "user"}, "?"],
        "dropped_tools": ["web_search", "mcp"],
    }
    assert given["tools"][0] is SEARCH


def test_deferred_tools_are_shown_at_once() -> None:
    deferred = FUNCTION | {"defer_loading": True}
    inner: Object = {"type": "namespace", "name": "n", "tools": [deferred]}
    assert hosted_tools.drop_hosted_tools({"tools": [deferred, inner]}) == {
        "tools": [FUNCTION, inner | {"tools": [FUNCTION]}]
    }


def test_search_of_the_client_is_kept_and_so_are_the_tools_that_wait_for_it() -> None:
    search: Object = {"type": "tool_search", "execution": "client"}
    deferred = FUNCTION | {"defer_loading": True}
    for given in ({"tools": [deferred, search]}, {"tools": [deferred], "input": [_brought(search)]}):
        assert hosted_tools.drop_hosted_tools(given) == given


@pytest.mark.parametrize("execution", [{}, {"execution": None}, {"execution": "server"}])
def test_search_by_the_server_is_left_out_and_no_tool_waits_for_it(execution: Object) -> None:
    given: Object = {
        "tools": [FUNCTION | {"defer_loading": True}],
        "input": [_brought({"type": "tool_search", **execution})],
    }
    kept: Object = {"tools": [FUNCTION], "input": [_brought()], "dropped_tools": ["tool_search"]}
    assert hosted_tools.drop_hosted_tools(given) == kept


def _brought(*tools: Object) -> Object:
    return {"type": "tool_search_output", "tools": list(tools)}


@pytest.mark.parametrize("given", [{}, {"input": "Hi"}, {"tools": None}, {"tools": {}, "input": [{"tools": 1}]}])
def test_a_request_without_tools_is_unchanged(given: Object) -> None:
    assert hosted_tools.drop_hosted_tools(given) == given


def test_malformed_tools_are_left_for_the_check_that_names_them() -> None:
    assert hosted_tools.drop_hosted_tools({"tools": [5, {"type": []}]}) == {"tools": [5, {"type": []}]}


def test_every_hosted_type_is_one_of_the_sdks() -> None:
    known = {kind for tool in get_args(tool_param.ToolParam) for kind in _types(tool)}
    assert known >= hosted_tools.HOSTED


def _types(tool: type) -> set[str]:
    return set(get_args(get_type_hints(tool)["type"]))
