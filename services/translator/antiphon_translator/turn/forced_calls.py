"""Forces a model to call a tool: the prompt ends with the beginning of the call, and a guide constrains the rest.

    one tool, arguments in JSON      the prompt goes up to the arguments; their schema is the guide
    any tool, a JSON object          the prompt goes up to the object; the guide is one schema for each tool
    otherwise                        the prompt goes up to the name or to the arguments; there is no guide

The second row is only for families that write a call as an object of `name` and `arguments`. A tool that is declared
`strict: false`, or whose schema cannot become a grammar, is guided by JSON and not by its schema. A forced call of a
custom tool with a grammar is rejected if the guide cannot express the grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_translator.generation import Guide, GuideKind
from antiphon_translator.parsing.family import Family
from antiphon_translator.prompt.tools import Tool, ToolSet
from antiphon_translator.schemas import custom_formats, normal_form, schemas
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline, move_schema

_ANY_OBJECT: Object = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ForcedCall:
    """The means to force a call. `beginning` is the text with which the answer begins, at the end of the prompt; empty
    if the family's table has none. `rest` is added to the output if the guide ends before the call: it closes
    the objects that `beginning` opened."""

    beginning: str = ""
    guide: Guide | None = None
    rest: str = ""


NOT_FORCED = ForcedCall()


def of(family: Family, tools: ToolSet, prompt_tail: str, *, guides: bool) -> ForcedCall:
    """The forced call for a turn that must call one of `tools`. `guides`: the engine takes guides. `prompt_tail` is the
    end of the prompt, in the characters of `family`."""
    name = tools.forced_name
    if name is None and guides and family.forced_object:
        beginning = family.behind_reasoning(family.forced_object, prompt_tail)
        return ForcedCall(beginning, _schema_guide(_any_call_schema(tools.callable)))
    beginning = family.beginning_of_call(name, prompt_tail)
    if name is None or not guides or not family.forced_json:
        return ForcedCall(beginning)
    tool = tools.callable[0]
    guide = _schema_guide(_arguments_schema(tool)) if _is_held_to_schema(tool) else Guide(GuideKind.JSON)
    return ForcedCall(beginning, guide, rest="}" * beginning.count("{"))


def require_grammars(tools: ToolSet, forced: ForcedCall) -> None:
    """InvalidRequest: no guide would hold a forced call to the grammar of its custom tool."""
    for tool in tools.callable:
        if tool.grammar is None:
            continue
        if forced.guide is None or not (custom_formats.can_be_held(tool.grammar) and _is_held_to_schema(tool)):
            raise InvalidRequest(
                f"Invalid value for 'tool_choice': with this model, a forced call of '{tool.name}' cannot be guided by "
                "the grammar in its 'format'. With 'auto' the model is only shown the grammar.",
                field="tool_choice",
                code="unsupported_value",
            )


def _any_call_schema(tools: Sequence[Tool]) -> Object:
    """The schema of a call of any of these tools. References begin at the root of a schema, so the arguments of a tool
    whose schema has some are a definition there."""
    calls, definitions = list[Object](), dict[str, Object]()
    for tool in tools:
        arguments = _arguments_schema(tool) if _is_held_to_schema(tool) else _ANY_OBJECT
        if Outline(arguments).has_references:
            pointer = f"#/$defs/arguments_{len(definitions)}"
            definitions[pointer.rpartition("/")[2]] = move_schema(arguments, pointer)
            arguments = {"$ref": pointer}
        calls.append(_call_schema(tool, arguments))
    return {"anyOf": calls} | ({"$defs": definitions} if definitions else {})


def _call_schema(tool: Tool, arguments: Object) -> Object:
    return {
        "type": "object",
        "properties": {"name": {"const": tool.shown_as}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _is_held_to_schema(tool: Tool) -> bool:
    """Whether calls of a tool are guided by its schema: it is not declared `strict: false`, and a grammar can be
    made of its schema."""
    if tool.strict is False:
        return False
    try:
        schemas.read_guidable(tool.schema)
    except InvalidSchema:
        return False
    return True


def _arguments_schema(tool: Tool) -> Object:
    """The schema of a tool's arguments, which always are an object, even if the schema does not say so."""
    return _ANY_OBJECT | normal_form.of(Outline(tool.schema))


def _schema_guide(schema: Object) -> Guide:
    return Guide(GuideKind.JSON_SCHEMA, dumps(schema).decode())
