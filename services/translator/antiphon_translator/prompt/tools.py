"""The tools of a turn: those that the model is shown, those that it may call, and the tool that a call is of.

Clients declare functions, custom tools, OpenAI's client tools and namespaces. A model knows functions only, so

    a custom tool    is shown as a function with one string, `input` (custom_formats.py)
    shell and such   is shown as a function with the arguments of its call item (client_tools.py)
    a namespace      is shown flat, its tools as NAMESPACE__NAME; a call may omit NAMESPACE__ if NAME is unique
    a tool server    is shown flat, its tools as LABEL__NAME, from the newest list of them in the conversation

and the model's calls are translated back. Deferred tools are not shown until a search of the client has found them: an
item of the conversation lists it then (declarations.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import ServerTool
from antiphon_core.request.hosted_tools import WEB_SEARCH as WEB_SEARCH_TYPES
from antiphon_core.request.server_tools import McpTool, ServerChoice
from antiphon_core.request.tools import (
    CLIENT_RUN,
    SEARCH,
    AllowedTools,
    ClientChoice,
    CustomTool,
    FunctionTool,
    GrammarInput,
    NamedChoice,
    NamespaceTool,
    PlainClientTool,
    ShellTool,
    ToolChoice,
    ToolSearchTool,
)
from antiphon_core.request.web_search import SearchChoice, WebSearchTool
from antiphon_translator.prompt.client_tools import CLIENT_TOOLS, ClientTool
from antiphon_translator.prompt.declarations import Declaration, ServerToolList
from antiphon_translator.prompt.tool_names import label_prefix, shown_name
from antiphon_translator.schemas import boolean_schemas, custom_formats


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `shown_as` is its name for the model; `name` and `namespace` are those that the client declared.
    `grammar` is the one that the input of a custom tool must match. The output of an `is_async` tool may come in any
    later turn. `client` is the definition of a client tool (client_tools.py). `server` is the label of the server that
    has the tool; a call of such a tool may need a person's approval (`needs_approval`)."""

    shown_as: str
    name: str
    namespace: str | None = None
    server: str | None = None
    needs_approval: bool = False
    is_custom: bool = False
    is_async: bool = False
    client: ClientTool | None = None
    grammar: GrammarInput | None = None
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None

    @property
    def schema(self) -> Object:
        """The JSON Schema of the tool's arguments."""
        return self.parameters if self.parameters is not None else {"type": "object", "properties": {}}

    def as_function(self) -> Object:
        """The tool as chat templates expect it."""
        described = {"description": self.description} if self.description is not None else {}
        return {
            "type": "function",
            "function": {"name": self.shown_as, **described, "parameters": self.schema},
        }


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of a turn. The model is shown those in `shown`, and may call those in `callable`. With `required` it
    has to call one."""

    shown: tuple[Tool, ...] = ()
    callable: tuple[Tool, ...] = ()
    requires_call: bool = False
    servers: tuple[str, ...] = ()
    """The labels of the servers that the request declares."""

    def tool_of_call(self, name: str) -> Tool:
        """The tool of a call by its name. A name that was never offered is taken as a function of that name, or as a
        tool of the server whose label it begins with: the server's answer then tells the model that it is wrong."""
        by_shown = {tool.shown_as: tool for tool in self.shown}
        if name in by_shown:
            return by_shown[name]
        bare = [tool for tool in self.shown if tool.name == name]
        return bare[0] if len(bare) == 1 else self._unknown_tool(name)

    def _unknown_tool(self, name: str) -> Tool:
        for label in self.servers:
            if name.startswith(label_prefix(label)):
                return Tool(name, name.removeprefix(label_prefix(label)), server=label)
        return Tool(name, name)

    def after_first_round(self) -> ToolSet:
        """The tools of the later rounds of a response, which no choice forces to be called."""
        return replace(self, requires_call=False)

    def without_server_calls(self) -> ToolSet:
        """The tools of a response that has used up its calls: all are shown, so that the prompt begins as before, and
        those of servers cannot be called."""
        return replace(self, callable=tuple(tool for tool in self.callable if tool.server is None))

    def with_approvals(self, tools: Collection[ServerTool]) -> ToolSet:
        """These tools, of which calls of `tools` need an approval."""
        names = frozenset(tools)

        def mark(group: Iterable[Tool]) -> tuple[Tool, ...]:
            return tuple(
                replace(tool, needs_approval=tool.server is not None and ServerTool(tool.server, tool.name) in names)
                for tool in group
            )

        return replace(self, shown=mark(self.shown), callable=mark(self.callable))

    @property
    def forced_name(self) -> str | None:
        """The name for the model of the only tool that may be called; None if there are several."""
        return self.callable[0].shown_as if len(self.callable) == 1 else None

    @property
    def schemas(self) -> Mapping[str, Object] | None:
        """The schemas of the callable tools by their names for the model; None if nothing may be called."""
        return {tool.shown_as: tool.schema for tool in self.callable} if self.callable else None


NO_TOOLS = ToolSet()

WEB_SEARCH = Tool(
    "web_search",
    "web_search",
    server="the web",
    description="Searches the web. The results are numbered: cite one by its number in brackets, such as [1].",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "The words to search for."}},
        "required": ["query"],
    },
)
"""The search of the web, as the model is shown it. No server has its label, which has a space."""


@dataclass(frozen=True, slots=True)
class _DeclaredTool:
    """A tool with the path of its declaration. `is_found`: a search has listed it; `is_waiting`: it is deferred, and
    none has."""

    tool: Tool
    path: str
    is_found: bool
    is_waiting: bool


def offered_tools(declared: Sequence[Declaration], choice: ToolChoice | None) -> ToolSet:
    """The tools of a turn. InvalidRequest: two tools have the same name, a deferred tool cannot be found, or `choice`
    names a tool that is not declared."""
    if not declared and choice in (None, "auto", "none"):
        return NO_TOOLS
    named = _by_name(declared)
    _require_search(named)
    tools = tuple(each.tool for each in named.values() if not each.is_waiting)
    servers = tuple(each.tool.server_label for each in declared if isinstance(each.tool, McpTool))
    if WEB_SEARCH in tools:
        servers = (*servers, str(WEB_SEARCH.server))
    return replace(_chosen_tools(tools, choice), servers=servers)


def _chosen_tools(tools: tuple[Tool, ...], choice: ToolChoice | None) -> ToolSet:
    """The tools, of which `choice` selects those that may be called. InvalidRequest: it selects one that is missing."""
    match choice:
        case None | "auto":
            return ToolSet(tools, tools)
        case "none":
            return ToolSet(tools)
        case "required":
            if not tools:
                raise _bad_choice("tool_choice is 'required', but there are no tools.", "tool_choice")
            return ToolSet(tools, tools, requires_call=True)
        case NamedChoice():
            chosen = _find_chosen(tools, choice.type, choice.name, "tool_choice")
            return ToolSet(tools, (chosen,), requires_call=True)
        case ClientChoice():
            return ToolSet(tools, (_find_chosen(tools, choice.type, choice.type, "tool_choice"),), requires_call=True)
        case ServerChoice():
            return ToolSet(
                tools, _of_server(tools, choice.server_label, choice.name, "tool_choice"), requires_call=True
            )
        case SearchChoice():
            return ToolSet(tools, (_find_chosen(tools, "web_search", choice.type, "tool_choice"),), requires_call=True)
        case AllowedTools():
            return ToolSet(tools, _allowed_tools(tools, choice), requires_call=choice.mode == "required")


def _by_name(declared: Iterable[Declaration]) -> Mapping[str, _DeclaredTool]:
    """The declared tools by their names for the model. A tool of a server whose name another tool has is left out.
    InvalidRequest: two tools of the client have the same name, and no search has listed either.

    A deferred tool that was found goes behind all others, so that the prompt begins as before it was found."""
    named: dict[str, _DeclaredTool] = {}
    declared = [*declared]
    lists = {each.tool.server_label: each.tool for each in declared if isinstance(each.tool, ServerToolList)}
    for each in (tool for declaration in declared for tool in _flat(declaration, lists)):
        name = each.tool.shown_as
        first = named.setdefault(name, each)
        if first is each:
            continue
        if first.tool.server or each.tool.server:  # the client does not choose the names that servers give their tools
            named[name] = first if each.tool.server else each
            continue
        _require_search_between(first, each)
        if first.is_waiting:
            del named[name]
        named[name] = each if first.is_found else replace(first, is_waiting=False)
    return named


def _require_search_between(first: _DeclaredTool, second: _DeclaredTool) -> None:
    """A tool may be listed again, also with another definition: tool servers are updated while a conversation goes on.
    The definition of the request's `tools` counts, else the newest one."""
    if not (first.is_found or second.is_found):
        path = first.path if second.path.startswith("history") else second.path
        message = f"Two tools have the name '{first.tool.shown_as}'."
        raise InvalidRequest(message, field=path, code="invalid_value")


def _require_search(named: Mapping[str, _DeclaredTool]) -> None:
    """InvalidRequest: a tool waits to be found, but the client has no search."""
    if any(each.tool.client is CLIENT_TOOLS[SEARCH] for each in named.values()):
        return
    for each in named.values():
        if each.is_waiting:
            path = f"{each.path}.defer_loading"
            message = (
                f"A tool can wait to be found only beside a search that you run: '{path}'. Add "
                "{'type': 'tool_search', 'execution': 'client'} to the tools, or leave 'defer_loading' out."
            )
            raise InvalidRequest(message, field=path, code="unsupported_parameter")


def _flat(declared: Declaration, lists: Mapping[str, ServerToolList]) -> Iterable[_DeclaredTool]:
    """The tools of one declaration, those of a namespace or a server one by one. `lists` has the newest list of tools
    of each server. The list of a server that the request does not declare is not shown."""
    match declared.tool:
        case McpTool() as server:
            for tool in _server_tools(server, lists.get(server.server_label)):
                yield _DeclaredTool(tool, declared.path, is_found=False, is_waiting=False)
        case WebSearchTool():
            yield _DeclaredTool(WEB_SEARCH, declared.path, is_found=False, is_waiting=False)
        case NamespaceTool() as group:
            for index, inner in enumerate(group.tools):
                yield _own_tool(inner, group.name, replace(declared, path=f"{declared.path}.tools[{index}]"))
        case FunctionTool() | CustomTool() as own:
            yield _own_tool(own, None, declared)
        case ShellTool() | PlainClientTool() | ToolSearchTool() as known:
            yield _DeclaredTool(_client_tool(known), declared.path, declared.is_found, is_waiting=False)


def _server_tools(server: McpTool, listed: ServerToolList | None) -> Iterable[Tool]:
    """The tools of a server that the request allows."""
    if listed is None:
        return
    for tool, function in zip(listed.tools, listed.functions, strict=True):
        if server.allows(tool.name, is_read_only=(tool.annotations or {}).get("read_only") is True):
            yield replace(_tool(function, None), name=tool.name, server=server.server_label)


def _own_tool(own: FunctionTool | CustomTool, namespace: str | None, declared: Declaration) -> _DeclaredTool:
    is_waiting = bool(own.defer_loading) and not declared.is_found
    return _DeclaredTool(_tool(own, namespace), declared.path, declared.is_found, is_waiting)


def _tool(declared: FunctionTool | CustomTool, namespace: str | None) -> Tool:
    shown_as = shown_name(declared.name, namespace)
    is_async = bool(declared.async_)
    described = Tool(shown_as, declared.name, namespace, is_async=is_async, description=declared.description)
    if isinstance(declared, CustomTool):
        grammar = declared.format if isinstance(declared.format, GrammarInput) else None
        schema = custom_formats.input_schema(declared.format)
        return replace(described, is_custom=True, grammar=grammar, parameters=schema)
    return replace(described, parameters=_written_out(declared.parameters), strict=declared.strict)


def _written_out(parameters: Object | None) -> Object | None:
    return boolean_schemas.written_out(parameters) if parameters is not None else None


def _client_tool(declared: ShellTool | PlainClientTool | ToolSearchTool) -> Tool:
    client = CLIENT_TOOLS[declared.type]
    if isinstance(declared, ToolSearchTool):
        description = client.description if declared.description is None else declared.description
        parameters = client.parameters if declared.parameters is None else _written_out(declared.parameters)
        return Tool(client.name, client.name, client=client, description=description, parameters=parameters)
    environment = declared.environment if isinstance(declared, ShellTool) else None
    skills = (environment and environment.skills) or ()
    lines = [f"\n- {skill.name} ({skill.path}): {skill.description}" for skill in skills]
    listed = "\nSkills, each described in its folder:" + "".join(lines) if lines else ""
    return Tool(
        client.name, client.name, client=client, description=client.description + listed, parameters=client.parameters
    )


def _allowed_tools(tools: Sequence[Tool], choice: AllowedTools) -> tuple[Tool, ...]:
    chosen = list[Tool]()
    for index, each in enumerate(choice.tools):
        kind, name, path = each.get("type"), each.get("name"), f"tool_choice.tools[{index}]"
        if kind == "mcp":
            chosen += _of_server(tools, str(each.get("server_label")), name, path)
            continue
        if kind in WEB_SEARCH_TYPES:
            chosen.append(_find_chosen(tools, "web_search", "web_search", path))
            continue
        if kind not in ("function", "custom", *CLIENT_RUN):
            raise _bad_choice(f"'{path}' must be a function, a custom tool or a tool that the caller runs.", path)
        chosen.append(_find_chosen(tools, kind, kind if kind in CLIENT_RUN else str(name), path))
    return tuple(chosen)


def _of_server(tools: Sequence[Tool], label: str, name: str | None, path: str) -> tuple[Tool, ...]:
    """The tools of a server, or the one of them with this name. InvalidRequest: there are none."""
    chosen = tuple(tool for tool in tools if tool.server == label and name in (None, tool.name))
    if not chosen:
        raise _bad_choice(f"Tool choice '{name or label}' not found in 'tools' parameter.", path)
    return chosen


def _find_chosen(tools: Sequence[Tool], kind: str, name: str, path: str) -> Tool:
    for tool in tools:
        if _kind_of(tool) == kind and (tool == WEB_SEARCH or name in (tool.name, tool.shown_as)):
            return tool
    raise _bad_choice(f"Tool choice '{name}' not found in 'tools' parameter.", path)


def _kind_of(tool: Tool) -> str:
    if tool.client is not None:
        return tool.client.name
    if tool.server is not None:
        return "web_search" if tool == WEB_SEARCH else "mcp"
    return "custom" if tool.is_custom else "function"


def _bad_choice(message: str, path: str) -> InvalidRequest:
    return InvalidRequest(message, field=path, code="invalid_value")
