"""The tools that a turn declares, each with the path of its declaration.

The request declares tools, and so do items of the conversation: `additional_tools`; `tool_search_output`, which lists
the tools that a search has found; and `mcp_list_tools`, which lists the tools of a server that the request declares.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.client_items import SEARCH_OUTPUT
from antiphon_core.request.errors import from_validation
from antiphon_core.request.server_items import LISTING, ListedTool, McpListTools
from antiphon_core.request.tools import FunctionTool, Tool
from antiphon_translator.prompt.tool_names import server_tool_name
from antiphon_translator.schemas import tool_schemas
from antiphon_translator.schemas.schema_budget import SchemaBudget

log = logging.getLogger(__name__)

_TOOLS: TypeAdapter[list[Any]] = TypeAdapter(list[Tool])
_DECLARING = ("additional_tools", SEARCH_OUTPUT)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One declared tool. `is_found`: a search for tools has listed it."""

    tool: Any
    path: str
    is_found: bool = False


@dataclass(frozen=True, slots=True)
class ServerToolList:
    """The tools of a server, as an item of the conversation lists them. `functions` are the tools as the model is shown
    them, in an order that does not depend on the server's."""

    server_label: str
    tools: Sequence[ListedTool]
    functions: Sequence[FunctionTool]


def at(where: str, tools: Sequence[Any], *, is_found: bool = False) -> list[Declaration]:
    """The declarations of a list of tools at the path `where`."""
    return [Declaration(tool, f"{where}[{index}]", is_found) for index, tool in enumerate(tools)]


def check_tools(tools: Sequence[Any], where: str, budget: SchemaBudget, *, is_found: bool = False) -> list[Declaration]:
    """Checks the tools that were declared at the path `where`. InvalidRequest: the parameters of a tool are no schema,
    a format is invalid, or all schemas together exceed the request's `budget`."""
    if not tools:
        return []
    tool_schemas.require(tools, where, budget)
    return at(where, tools, is_found=is_found)


def in_items(items: Sequence[Any], where: str, budget: SchemaBudget, first: int = 0) -> list[Declaration]:
    """The tools that items of a conversation declare. The items are in the member `where` from index `first` on. An
    item that is no object declares nothing: the reader of the conversation rejects it. InvalidRequest: as `checked`, or
    a declaration has the wrong form; with its path."""
    declared: list[Declaration] = []
    for index, item in enumerate(items, first):
        if isinstance(item, dict) and item.get("type") == LISTING:
            declared.append(_server_tools(item, f"{where}[{index}]", budget))
        elif isinstance(item, dict) and item.get("type") in _DECLARING:
            path = f"{where}[{index}].tools"
            try:
                tools = _TOOLS.validate_python(item.get("tools", []))
            except ValidationError as error:
                raise from_validation(error, where=path) from error
            declared += check_tools(tools, path, budget, is_found=item["type"] == SEARCH_OUTPUT)
    return declared


def _server_tools(item: Object, path: str, budget: SchemaBudget) -> Declaration:
    """The declaration of the tools of a server, without those whose schemas cannot be used. InvalidRequest: the list
    has the wrong form."""
    try:
        listed = McpListTools.model_validate(item)
    except ValidationError as error:
        raise from_validation(error, where=path) from error
    tools, functions = list[ListedTool](), list[FunctionTool]()
    for tool in sorted(listed.tools, key=lambda tool: tool.name):
        function = _function(listed.server_label, tool)
        if _has_usable_schema(function, budget):
            tools.append(tool)
            functions.append(function)
    return Declaration(ServerToolList(listed.server_label, tools, functions), path)


def _has_usable_schema(function: FunctionTool, budget: SchemaBudget) -> bool:
    """Whether a tool of a server can be shown: one that cannot must not cost the client, who did not write its schema,
    the others."""
    before = budget.spent
    try:
        tool_schemas.require([function], "tools", budget)
    except InvalidRequest as flaw:
        budget.spent = before
        log.info("a tool of a server is left out: %s", flaw.message)
        return False
    return True


def _function(label: str, tool: ListedTool) -> FunctionTool:
    name = server_tool_name(label, tool.name)
    return FunctionTool(type="function", name=name, description=tool.description, parameters=tool.input_schema)
