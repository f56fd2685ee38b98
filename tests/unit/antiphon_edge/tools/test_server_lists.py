from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon_core.errors import ToolsUnavailable
from antiphon_core.ids import SequentialIds
from antiphon_core.ports.tools import Listing, ToolServer
from antiphon_core.request.server_tools import McpTool
from antiphon_edge.tools.declared_servers import DeclaredServer
from antiphon_edge.tools.server_lists import new_items, read_lists
from tests.support.served_models import RESPONSE_ID
from tests.support.server_tools import server
from tests.support.tool_turns import FakeTools
from tests.support.waiting import WAIT_MAX_S


def declared(**members: Any) -> DeclaredServer:
    return DeclaredServer("tools[4]", McpTool.model_validate(server(**members)))


async def test_servers_are_asked_at_once_and_an_error_ends_all_requests() -> None:
    asked, left = list[str](), list[str]()
    all_asked = asyncio.Event()

    class Slow(FakeTools):
        async def list_tools(self, tenant: str, server: ToolServer, *_: Any, **__: Any) -> Listing:
            asked.append(server.label)
            if len(asked) == 2:
                all_asked.set()
            try:
                await (asyncio.sleep(0) if server.label == "a" else asyncio.Event().wait())
            finally:
                left.append(server.label)
            await all_asked.wait()
            raise ToolsUnavailable("Away.")

    servers = [declared(server_label=label) for label in ("a", "b")]
    with pytest.raises(ToolsUnavailable):
        await asyncio.wait_for(read_lists(Slow(), "default", servers), WAIT_MAX_S)
    assert (asked, left) == (["a", "b"], ["a", "b"])


async def test_read_only_filter_uses_what_the_operator_trusts() -> None:
    tools = FakeTools()
    found = (await read_lists(tools, "default", [declared(allowed_tools={"read_only": True})]))["shop"]
    assert [*found.tools] == ["search"]


async def test_item_is_new_only_if_the_conversation_has_another_list() -> None:
    lists = await read_lists(FakeTools(), "default", [declared()])
    (item,) = new_items(lists, [], SequentialIds(), relative=RESPONSE_ID)
    assert item["id"].startswith("mcpl_")
    assert new_items(lists, [item], SequentialIds(), relative=RESPONSE_ID) == []
    older = item | {"tools": item["tools"][:1]}
    assert len(new_items(lists, [older], SequentialIds(), relative=RESPONSE_ID)) == 1
    assert new_items(lists, [older, item], SequentialIds(), relative=RESPONSE_ID) == []
