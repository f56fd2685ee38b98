"""The tools of a turn: what the model is shown, what it may call, and whose call it then is.

Callers declare functions, custom tools and namespaces of both. A model knows functions only, so

    custom tool    is shown as a function with one string, `input` (custom_formats.py)
    shell and such is shown as a function with the arguments of its call item (client_tools.py)
    namespace      is shown flat, its tools as NAMESPACE__NAME; a bare name counts, too, where it is nobody else's

and what it calls is translated back. Tools may come with the request and with items of the conversation
(`additional_tools`).
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
from antiphon_translator.schemas import custom_formats, tool_schemas
from antiphon_translator.schemas.schema_budget import SchemaBudget

_SEPARATOR = "__"
_DECLARED: TypeAdapter[list[Any]] = TypeAdapter(list[DeclaredTool])


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `shown_as` is its name for the model; `name` and `namespace` are the caller's. `grammar` is what the
    input of a custom tool must match. The output of an `is_async` tool may come in any later turn.
    `client` defines a tool of OpenAI's that the caller runs."""

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
    """`shown` is what the model is told of, `callable` what it may call now. With `required` it has to call one."""

    shown: tuple[Tool, ...] = ()
    callable: tuple[Tool, ...] = ()
    required: bool = False

    def called(self, name: str) -> Tool:
        """The tool that a model means. A name that was never offered is passed on as a function of that name."""
        by_shown = {tool.shown_as: tool for tool in self.shown}
        if name in by_shown:
            return by_shown[name]
        bare = [tool for tool in self.shown if tool.name == name]
        return bare[0] if len(bare) == 1 else Tool(name, name)

    @property
    def forced_name(self) -> str | None:
        """The one tool that has to be called, as the model knows it; None when any will do."""
        return self.callable[0].shown_as if len(self.callable) == 1 else None

    @property
    def schemas(self) -> Mapping[str, Object] | None:
        """Parameters by name, for the parser; None when nothing may be called."""
        return {tool.shown_as: tool.schema for tool in self.callable} if self.callable else None


def offered(declared: Iterable[Any], choice: ToolChoice | None) -> ToolSet:
    """The tools of a turn. InvalidRequest: two have one name, or the choice is of a tool that is not there."""
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
    """Tools as they were declared at this path. InvalidRequest: the parameters of one are no schema, its format no
    format, or all are more than the request's `budget`."""
    tool_schemas.require(declared, where, budget)
    return declared


def shown_name(name: str, namespace: str | None) -> str:
    """How a model is told of a tool."""
    return f"{namespace}{_SEPARATOR}{name}" if namespace else name


def declared_in(items: Sequence[Object], where: str, budget: SchemaBudget, first: int = 0) -> list[Any]:
    """The tools that items of a conversation bring along, which stand there from index `first` on. InvalidRequest: with
    the path of the culprit."""
    found: list[Any] = []
    for index, item in enumerate(items, first):
        if item.get("type") in ("additional_tools", "tool_search_output"):
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
    return replace(described, parameters=declared.parameters, strict=declared.strict)


def _client_tool(declared: ShellTool | PlainClientTool) -> Tool:
    client = CLIENT_TOOLS[declared.type]
    environment = declared.environment if isinstance(declared, ShellTool) else None
    skills = (environment and environment.skills) or ()
    lines = [f"\n- {skill.name} ({skill.path}): {skill.description}" for skill in skills]
    told = "\nSkills, each described in its folder:" + "".join(lines) if lines else ""
    return Tool(
        client.name, client.name, client=client, description=client.description + told, parameters=client.parameters
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
