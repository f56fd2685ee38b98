"""Whether the parameters of functions are JSON schemas, and with `strict` such as a grammar can follow.

Clients send odd things that do no harm: a `$schema` of whatever kind, unknown formats, `{}`, no parameters at all. What
a model is only shown may be odd; what is no schema may not.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any

from antiphon_core import limits, offload
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.request.tools import CustomTool, FunctionTool, GrammarInput, NamespaceTool
from antiphon_translator.schemas import custom_formats, schemas, strict_schemas
from antiphon_translator.schemas.schema_budget import SchemaBudget, SchemaCost, cost_of
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline


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
        CHECKED.require(written, bool(tool.strict), budget)
    except InvalidSchema as flaw:
        message = f"Invalid schema for function '{tool.name}': {flaw}"
        raise InvalidRequest(message, field=field, code="invalid_function_parameters") from flaw


class CheckedSchemas:
    """The digests of schemas that were found good, and what they cost: the same tools come with every turn. What was
    not found good is looked at again. Safe to use from several threads."""

    def __init__(self, items_max: int = limits.SCHEMA_CACHE_ITEMS_MAX) -> None:
        self._items_max = items_max
        self._costs: OrderedDict[bytes, SchemaCost] = OrderedDict()
        self._lock = Lock()

    def require(self, written: bytes, strict: bool, budget: SchemaBudget) -> None:
        """InvalidSchema: it is none, or too much for the budget."""
        key = hashlib.sha256(written).digest() + bytes([strict])
        with self._lock:
            cost = self._costs.get(key)
            if cost is not None:
                self._costs.move_to_end(key)
        if cost is not None:
            budget.take(cost)
            return
        cost = _read(written, strict, budget)
        with self._lock:
            self._costs[key] = cost
            while len(self._costs) > self._items_max:
                self._costs.popitem(last=False)

    def __len__(self) -> int:
        return len(self._costs)


CHECKED = CheckedSchemas()
"""Of this process: a schema is good for every tenant, or for none."""


def _read(written: bytes, strict: bool, budget: SchemaBudget) -> SchemaCost:
    schemas.require_size(len(written))
    schema: Object = loads(written)
    outline = Outline(schema)
    cost = cost_of(outline, size_bytes=len(written), compiles=strict)
    budget.take(cost)
    schemas.require_schema(outline)
    kind = schema.get("type", "object")
    if kind != "object" and "object" not in kind:
        raise InvalidSchema((), f"the schema must have type 'object', but has type {kind!r}.")
    if strict:
        schemas.require_guidable(outline)
        strict_schemas.require(outline)
        schemas.compiled(outline)
    return cost
