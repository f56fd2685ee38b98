"""Whether the parameters of functions are JSON schemas, and with `strict` such as a grammar can follow.

Clients send odd things that do no harm: a `$schema` of whatever kind, unknown formats, `{}`, no parameters at all. What
a model is only shown may be odd; what is no schema may not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from antiphon_core import offload
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.tools import CustomTool, FunctionTool, GrammarInput, NamespaceTool
from antiphon_translator.schemas import checked_schemas, custom_formats
from antiphon_translator.schemas.schema_budget import SchemaBudget
from antiphon_translator.schemas.schema_outline import InvalidSchema


def require(declared: Iterable[Any], path: str, budget: SchemaBudget) -> None:
    """`path` is that of the list of tools, `budget` that of the request.

    Raises:
        InvalidRequest: the parameters of a tool are no schema or its grammar none, with the path; or all are too much.
        WorkAbandoned: nobody waits for the request any more.
    """
    for index, tool in enumerate(declared):
        match tool:
            case NamespaceTool():
                require(tool.tools, f"{path}[{index}].tools", budget)
            case FunctionTool(parameters=dict()):
                _require(tool, f"{path}[{index}].parameters", budget)
            case CustomTool(format=GrammarInput() as grammar):
                custom_formats.require(grammar, f"{path}[{index}].format")


def _require(tool: FunctionTool, field: str, budget: SchemaBudget) -> None:
    offload.require_wanted()
    written = dumps(tool.parameters)
    try:
        checked_schemas.PROCESS.require(written, bool(tool.strict), budget)
    except InvalidSchema as flaw:
        message = f"Invalid schema for function '{tool.name}': {flaw}"
        raise InvalidRequest(message, field=field, code="invalid_function_parameters") from flaw
