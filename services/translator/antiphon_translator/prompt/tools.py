"""The tools of a turn: those that the model is shown, those that it may call, and the tool that a call is of.

Clients declare functions, custom tools, OpenAI's client tools and namespaces. A model knows functions only, so

    a custom tool    is shown as a function with one string, `input` (custom_formats.py)
    shell and such   is shown as a function with the arguments of its call item (client_tools.py)
    a namespace      is shown flat, its tools as NAMESPACE__NAME; a call may omit NAMESPACE__ if NAME is unique

and the model's calls are translated back. The request declares tools, and so may items of the conversation
(`additional_tools`, `tool_search_output`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.errors import from_validation
from antiphon_core.request.tools import (
    CLIENT_RUN,
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
)
from antiphon_core.request.tools import Tool as DeclaredTool
from antiphon_translator.prompt.client_tools import CLIENT_TOOLS, ClientTool
from antiphon_translator.schemas import boolean_schemas, custom_formats, tool_schemas
from antiphon_translator.schemas.schema_budget import SchemaBudget

_SEPARATOR = "__"
_DECLARED: TypeAdapter[list[Any]] = TypeAdapter(list[DeclaredTool])


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `shown_as` is its name for the model; `name` and `namespace` are those that the client declared.
    `grammar` is the one that the input of a custom tool must match. The output of an `is_async` tool may come in any
    later turn. `client` is the definition of a client tool (client_tools.py)."""

    shown_as: str
    name: str
    namespace: str | None = None
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
    required: bool = False

    def called(self, name: str) -> Tool:
        """The tool of a call by its name. A name that was never offered is taken as a function of that name."""
        by_shown = {tool.shown_as: tool for tool in self.shown}
        if name in by_shown:
            return by_shown[name]
        bare = [tool for tool in self.shown if tool.name == name]
        return bare[0] if len(bare) == 1 else Tool(name, name)

    @property
    def forced_name(self) -> str | None:
        """The name for the model of the only tool that may be called; None if there are several."""
        return self.callable[0].shown_as if len(self.callable) == 1 else None

    @property
    def schemas(self) -> Mapping[str, Object] | None:
        """The schemas of the callable tools by their names for the model; None if nothing may be called."""
        return {tool.shown_as: tool.schema for tool in self.callable} if self.callable else None


def offered(declared: Iterable[Any], choice: ToolChoice | None) -> ToolSet:
    """The tools of a turn. InvalidRequest: two tools have the same name, or `choice` names a tool that is not
    declared."""
    tools = tuple(_flat(declared))
    _require_unique(tools)
    match choice:
        case None | "auto":
            return ToolSet(tools, tools)
        case "none":
            return ToolSet(tools)
        case "required":
            if not tools:
                raise _bad_choice("tool_choice is 'required', but there are no tools.", "tool_choice")
            return ToolSet(tools, tools, required=True)
        case NamedChoice():
            chosen = _chosen(tools, choice.type, choice.name, "tool_choice")
            return ToolSet(tools, (chosen,), required=True)
        case ClientChoice():
            return ToolSet(tools, (_chosen(tools, choice.type, choice.type, "tool_choice"),), required=True)
        case AllowedTools():
            return ToolSet(tools, _allowed(tools, choice), required=choice.mode == "required")


def checked(declared: Sequence[Any], where: str, budget: SchemaBudget) -> Sequence[Any]:
    """Returns the tools that were declared at the path `where`. InvalidRequest: the parameters of a tool are no schema,
    a format is invalid, or all schemas together exceed the request's `budget`."""
    tool_schemas.require(declared, where, budget)
    return declared


def shown_name(name: str, namespace: str | None) -> str:
    """The name under which a model is shown a tool."""
    return f"{namespace}{_SEPARATOR}{name}" if namespace else name


def declared_in(items: Sequence[Any], where: str, budget: SchemaBudget, first: int = 0) -> list[Any]:
    """The tools that items of a conversation declare. The items are in the member `where` from index `first` on. An
    item that is no object declares nothing: the reader of the conversation rejects it. InvalidRequest: as `checked`, or
    a declaration has the wrong form; with its path."""
    found: list[Any] = []
    for index, item in enumerate(items, first):
        if isinstance(item, dict) and item.get("type") in ("additional_tools", "tool_search_output"):
            path = f"{where}[{index}].tools"
            try:
                tools = _DECLARED.validate_python(item.get("tools", []))
            except ValidationError as error:
                raise from_validation(error, where=path) from error
            found += checked(tools, path, budget)
    return found


def _flat(declared: Iterable[Any]) -> Iterable[Tool]:
    for each in declared:
        match each:
            case NamespaceTool():
                yield from (_tool(inner, each.name) for inner in each.tools)
            case FunctionTool() | CustomTool():
                yield _tool(each, None)
            case ShellTool() | PlainClientTool():
                yield _client_tool(each)


def _tool(declared: FunctionTool | CustomTool, namespace: str | None) -> Tool:
    shown_as = shown_name(declared.name, namespace)
    is_async = bool(declared.async_)
    described = Tool(shown_as, declared.name, namespace, is_async=is_async, description=declared.description)
    if isinstance(declared, CustomTool):
        grammar = declared.format if isinstance(declared.format, GrammarInput) else None
        schema = custom_formats.input_schema(declared.format)
        return replace(described, is_custom=True, grammar=grammar, parameters=schema)
    parameters = boolean_schemas.written_out(declared.parameters) if declared.parameters is not None else None
    return replace(described, parameters=parameters, strict=declared.strict)


def _client_tool(declared: ShellTool | PlainClientTool) -> Tool:
    client = CLIENT_TOOLS[declared.type]
    environment = declared.environment if isinstance(declared, ShellTool) else None
    skills = (environment and environment.skills) or ()
    lines = [f"\n- {skill.name} ({skill.path}): {skill.description}" for skill in skills]
    listed = "\nSkills, each described in its folder:" + "".join(lines) if lines else ""
    return Tool(
        client.name, client.name, client=client, description=client.description + listed, parameters=client.parameters
    )


def _require_unique(tools: Sequence[Tool]) -> None:
    seen: set[str] = set()
    for tool in tools:
        if tool.shown_as in seen:
            raise InvalidRequest(f"Two tools have the name '{tool.shown_as}'.", field="tools", code="invalid_value")
        seen.add(tool.shown_as)


def _allowed(tools: Sequence[Tool], choice: AllowedTools) -> tuple[Tool, ...]:
    chosen = []
    for index, each in enumerate(choice.tools):
        kind, name, path = each.get("type"), each.get("name"), f"tool_choice.tools[{index}]"
        if kind not in ("function", "custom", *CLIENT_RUN):
            raise _bad_choice(f"'{path}' must be a function, a custom tool or a tool that the caller runs.", path)
        chosen.append(_chosen(tools, kind, kind if kind in CLIENT_RUN else str(name), path))
    return tuple(chosen)


def _chosen(tools: Sequence[Tool], kind: str, name: str, path: str) -> Tool:
    for tool in tools:
        if name in (tool.name, tool.shown_as) and _kind_of(tool) == kind:
            return tool
    raise _bad_choice(f"Tool choice '{name}' not found in 'tools' parameter.", path)


def _kind_of(tool: Tool) -> str:
    if tool.client is not None:
        return tool.client.name
    return "custom" if tool.is_custom else "function"


def _bad_choice(message: str, path: str) -> InvalidRequest:
    return InvalidRequest(message, field=path, code="invalid_value")
