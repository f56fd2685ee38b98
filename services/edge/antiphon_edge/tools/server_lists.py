"""The tools of a turn's servers: the lists that the model reads, and what servers and operator say of the tools.

The lists in a conversation shape the prompt only. Which calls may run is decided by the lists that the servers gave to
this turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from antiphon_core.errors import AntiphonError, InvalidRequest, ToolServerFault, ToolsUnavailable
from antiphon_core.ids import Ids, new_item_id
from antiphon_core.items import ID_PREFIX
from antiphon_core.jsons import Object, loads
from antiphon_core.limits import TOOLS_ITEMS_MAX
from antiphon_core.ports.tools import Listing, Tool, Tools
from antiphon_core.request.server_items import LISTING
from antiphon_edge.tools.declared_servers import DeclaredServer

_NO_LISTING = Listing(identity="", tools=())


@dataclass(frozen=True, slots=True)
class ServerList:
    """A server with the tools that the request allows. `error` says why it gave no list."""

    declared: DeclaredServer
    listing: Listing
    error: str = ""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name: the first ones, if there are more than a list may have."""
        allows = self.declared.tool.allows
        allowed = (tool for tool in self.listing.tools if allows(tool.name, is_read_only=tool.is_read_only))
        return {tool.name: tool for tool in islice(allowed, TOOLS_ITEMS_MAX)}

    @property
    def size_bytes(self) -> int:
        """About the size of the item that lists the tools."""
        return sum(len(tool.description) + len(tool.input_schema) for tool in self.listing.tools)

    def content(self) -> Object:
        """The members of the item that lists the tools, except its id."""
        tools = [_tool_form(tool) for tool in self.tools.values()]
        error = {"error": self.error} if self.error else {}
        return {"type": LISTING, "server_label": self.declared.label, "tools": tools, **error}


def _tool_form(tool: Tool) -> Object:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": loads(tool.input_schema or b"{}"),
        "annotations": {"read_only": tool.is_read_only},
    }


async def read_lists(tools: Tools, tenant: str, servers: Sequence[DeclaredServer]) -> Mapping[str, ServerList]:
    """Asks all servers for their tools, at once: servers that do not answer cost the time of one. Such a server has
    none.

    Raises:
        InvalidRequest: the request may not use a server.
        ToolsUnavailable: the service that calls tools cannot be reached.
    """
    reads = [asyncio.create_task(_read_list(tools, tenant, declared)) for declared in servers]
    try:
        return {declared.label: await read for declared, read in zip(servers, reads, strict=True)}
    finally:
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)


async def _read_list(tools: Tools, tenant: str, declared: DeclaredServer) -> ServerList:
    try:
        listing = await tools.list_tools(tenant, declared.server, declared.credentials)
    except ToolsUnavailable:
        raise
    except ToolServerFault as error:
        return ServerList(declared, _NO_LISTING, error.message)
    except InvalidRequest as error:
        raise _at(error, declared.path) from error
    return ServerList(declared, listing)


def _at(error: InvalidRequest, path: str) -> AntiphonError:
    field = f"{path}.{error.field}" if error.field else path
    return InvalidRequest(error.message, field=field, code=error.facts.get("code") or "invalid_value")


def new_items(lists: Mapping[str, ServerList], context: Sequence[Object], ids: Ids, *, relative: str) -> list[Object]:
    """The items for the lists that the conversation `context` does not have as they are now. `relative` is the id of
    the response."""
    known = {item["server_label"]: item for item in context if item.get("type") == LISTING}
    items: list[Object] = []
    for label, each in lists.items():
        content = each.content()
        former = known.get(label, {})
        if any(former.get(name) != value for name, value in content.items()):
            items.append({"id": new_item_id(ids, ID_PREFIX[LISTING], relative=relative), **content})
    return items
