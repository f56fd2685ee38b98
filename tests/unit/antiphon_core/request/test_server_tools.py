from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.hosted_tools import NONE_RUN_HERE, HostedTools
from antiphon_core.request.server_tools import McpTool, ToolFilter
from tests.support.server_tools import server

RUN_HERE = HostedTools(frozenset({"mcp"}))


def parse(*tools: Object, hosted: HostedTools = RUN_HERE, **members: object) -> CreateRequest:
    return CreateRequest.of({"model": "m", "input": "x", "tools": list(tools), **members}, work_bytes=9, hosted=hosted)


def test_credentials_are_in_no_serialized_form() -> None:
    request = parse(server(authorization="canary", headers={"x-key": "canary"}))
    assert request.tools is not None
    (tool,) = request.tools
    assert isinstance(tool, McpTool)
    assert (tool.authorization, tool.headers) == ("canary", {"x-key": "canary"})
    assert b"canary" not in dumps(request.as_json())
    assert "canary" not in repr(request)


@pytest.mark.parametrize(
    ("tool", "field", "code"),
    [
        ({"type": "mcp"}, "tools[0].server_label", "missing_required_parameter"),
        (server("1"), "tools[0].server_label", "invalid_value"),
        (server("a__b"), "tools[0].server_label", "invalid_value"),
        (server("a_"), "tools[0].server_label", "invalid_value"),
        (server("a" * 49), "tools[0].server_label", "string_above_max_length"),
        (server(connector_id="connector_gmail"), "tools[0].connector_id", "unsupported_parameter"),
        (server(tunnel_id="t"), "tools[0].tunnel_id", "unsupported_parameter"),
        (server(defer_loading=True), "tools[0].defer_loading", "unsupported_parameter"),
        (server(require_approval="often"), "tools[0].require_approval", "invalid_value"),
        (server(require_approval={"often": {}}), "tools[0].require_approval.often", "unknown_parameter"),
    ],
)
def test_wrong_server_is_rejected_with_its_path(tool: Object, field: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(tool)
    assert (caught.value.field, caught.value.code) == (field, code)


@pytest.mark.parametrize(
    ("members", "hosted", "field"),
    [
        ({"tools": [server()]}, NONE_RUN_HERE, "tools[0]"),
        ({"tool_choice": {"type": "mcp", "server_label": "s"}}, NONE_RUN_HERE, "tool_choice"),
        ({"input": [{"type": "additional_tools", "tools": [server()]}]}, NONE_RUN_HERE, "input[0].tools[0]"),
        ({"input": [{"type": "additional_tools", "tools": [server()]}]}, RUN_HERE, "input[0].tools[0]"),
    ],
)
def test_server_that_cannot_be_called_is_rejected_by_name(members: Object, hosted: HostedTools, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        CreateRequest.of({"model": "m", "input": "x"} | members, work_bytes=9, hosted=hosted)
    assert (caught.value.field, caught.value.code) == (field, "unsupported_value")


def test_dropping_keeps_the_tools_that_run_here() -> None:
    request = parse(server(), {"type": "web_search"}, hosted=HostedTools(frozenset({"mcp"}), are_dropped=True))
    assert request.tools is not None
    assert ([tool.type for tool in request.tools], request.dropped_tools) == (["mcp"], ["web_search"])


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (None, ["search", "buy"]),
        (["buy"], ["buy"]),
        ({"tool_names": ["search", "buy"], "read_only": True}, ["search"]),
        ({"read_only": False}, ["buy"]),
        ({}, ["search", "buy"]),
    ],
)
def test_allowed_tools_select_by_name_and_by_what_a_tool_does(allowed: object, names: list[str]) -> None:
    tool = McpTool.model_validate(server(allowed_tools=allowed))
    assert [name for name in ("search", "buy") if tool.allows(name, is_read_only=name == "search")] == names
    assert ToolFilter().selects("buy", is_read_only=False)
