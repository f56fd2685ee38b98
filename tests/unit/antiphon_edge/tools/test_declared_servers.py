from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.tools import NO_CREDENTIALS, Credentials, ToolServer
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.tools import FunctionTool
from antiphon_edge.tools.declared_servers import DeclaredTools, credentials_of, require_callable
from tests.support.server_tools import server
from tests.support.tool_turns import RUN_HERE

FUNCTION: Object = {"type": "function", "name": "f"}


def request(*tools: Object, **members: object) -> CreateRequest:
    body: Object = {"model": "m", "input": "x", "tools": list(tools), **members}
    return CreateRequest.of(body, work_bytes=9, hosted=RUN_HERE)


def test_servers_have_their_paths_and_the_credentials_of_the_request() -> None:
    given = request(FUNCTION, server("a", server_url="https://a.example", authorization="t"), server("b"))
    found = DeclaredTools.of(given).with_credentials(credentials_of(given))
    assert [(each.path, each.server) for each in found] == [
        ("tools[1]", ToolServer("a", "https://a.example")),
        ("tools[2]", ToolServer("b")),
    ]
    assert [each.credentials for each in found] == [Credentials("t"), NO_CREDENTIALS]


@pytest.mark.parametrize(
    "given",
    [
        request(FUNCTION),
        request({"type": "function", "name": "mcp"}, instructions='say "mcp"'),
        request(FUNCTION, server(authorization="t", headers={"a": "b"}), parallel_tool_calls=False),
        request({"type": "web_search", "search_context_size": "low"}, {"type": "web_search"}, max_tool_calls=3),
    ],
)
def test_tools_of_a_job_are_those_of_its_request(given: CreateRequest) -> None:
    declared = DeclaredTools.of(given)
    assert DeclaredTools.read(loads(dumps(given.as_json()))) == declared
    assert bool(declared) == any(not isinstance(tool, FunctionTool) for tool in given.tools or ())


@pytest.mark.parametrize(
    ("tools", "members", "field"),
    [
        ([server("a"), server("a")], {}, "tools[1].server_label"),
        ([server()], {"context_management": [{"type": "compaction"}]}, "context_management"),
        ([server(authorization="t")], {"background": True}, "tools[0].authorization"),
        ([FUNCTION, server(headers={"a": "b"})], {"background": True}, "tools[1].headers"),
    ],
)
def test_servers_that_cannot_be_called_are_rejected_with_their_path(
    tools: list[Object], members: Object, field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        require_callable(request(*tools, **members))
    assert caught.value.field == field


def test_server_without_credentials_can_be_called_in_the_background() -> None:
    require_callable(request(server(), background=True))
