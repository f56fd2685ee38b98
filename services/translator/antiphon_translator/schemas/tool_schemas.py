"""Checks the declarations of tools: parameters must be JSON schemas, and with `strict` in the strict subset.

Harmless oddities are accepted in parameters that the model is only shown: any `$schema`, unknown formats, `{}`, no
parameters at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from antiphon_core import offload
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.tools import CustomTool, FunctionTool, GrammarInput, NamespaceTool, ToolSearchTool
from antiphon_translator.schemas import checked_schemas, custom_formats
from antiphon_translator.schemas.schema_budget import SchemaBudget
from antiphon_translator.schemas.schema_outline import InvalidSchema


def require(declared: Iterable[Any], path: str, budget: SchemaBudget) -> None:
    """Checks all tools of a list. `path` is the path of the list, `budget` that of the request.

    Raises:
        InvalidRequest: the parameters of a tool are no schema, its grammar is invalid, or all schemas together exceed
            the budget; with the path.
        WorkAbandoned: the request no longer waits for the result.
    """
    for index, tool in enumerate(declared):
        match tool:
            case NamespaceTool():
                require(tool.tools, f"{path}[{index}].tools", budget)
            case FunctionTool(parameters=dict() as parameters, name=name, strict=strict):
                _require(parameters, name, f"{path}[{index}].parameters", budget, is_strict=bool(strict))
            case ToolSearchTool(parameters=dict() as parameters, type=name):
                _require(parameters, name, f"{path}[{index}].parameters", budget)
            case CustomTool(format=GrammarInput() as grammar):
                custom_formats.require(grammar, f"{path}[{index}].format")


def _require(parameters: Object, name: str, field: str, budget: SchemaBudget, *, is_strict: bool = False) -> None:
    offload.require_wanted()
    try:
        checked_schemas.PROCESS.require(dumps(parameters), is_strict, budget)
    except InvalidSchema as flaw:
        message = f"Invalid schema for function '{name}': {flaw}"
        raise InvalidRequest(message, field=field, code="invalid_function_parameters") from flaw
