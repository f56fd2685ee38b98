"""Whether the parameters of functions are JSON schemas, and with `strict` such as a grammar can follow.

Clients send odd things that do no harm: a `$schema` of whatever kind, unknown formats, `{}`, no parameters at all. What
a model is only shown may be odd; what is no schema may not.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.request.tools import CustomTool, FunctionTool, GrammarInput, NamespaceTool
from antiphon_translator.schemas import custom_formats, schemas, strict_schemas
from antiphon_translator.schemas.schema_outline import InvalidSchema


def require(declared: Iterable[Any], path: str) -> None:
    """`path` is that of the list of tools. InvalidRequest: with the path of the parameters that are no schema, or of
    the grammar that is none."""
    for index, tool in enumerate(declared):
        match tool:
            case NamespaceTool():
                require(tool.tools, f"{path}[{index}].tools")
            case FunctionTool(parameters=dict()):
                _require(tool, f"{path}[{index}].parameters")
            case CustomTool(format=GrammarInput() as grammar):
                custom_formats.require(grammar, f"{path}[{index}].format")


def _require(tool: FunctionTool, field: str) -> None:
    written = dumps(tool.parameters)
    read = _read_cached if len(written) <= limits.SCHEMA_CACHE_BYTES_MAX else _read
    try:
        read(written, bool(tool.strict))
    except InvalidSchema as flaw:
        message = f"Invalid schema for function '{tool.name}': {flaw}"
        raise InvalidRequest(message, field=field, code="invalid_function_parameters") from flaw


def _read(written: bytes, strict: bool) -> None:
    schema: Object = loads(written)
    outline = schemas.read(schema)
    kind = schema.get("type", "object")
    if kind != "object" and "object" not in kind:
        raise InvalidSchema((), f"the schema must have type 'object', but has type {kind!r}.")
    if strict:
        schemas.require_guidable(outline)
        strict_schemas.require(outline)
        schemas.compiled(outline)


# The same tools come with every turn. What was found good is remembered; what was not is looked at again.
_read_cached = lru_cache(limits.SCHEMA_CACHE_ITEMS_MAX)(_read)
