"""A cache of checked function parameters: a schema that was found valid is known by its digest."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock

from antiphon_core import limits
from antiphon_core.jsons import Object, loads
from antiphon_translator.schemas import schemas, strict_schemas
from antiphon_translator.schemas.schema_budget import SchemaBudget, SchemaCost, cost_of
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline


class CheckedSchemas:
    """The digests of valid schemas with their costs, because every turn of an application has the same tools. Invalid
    schemas are checked each time. Safe to use from several threads."""

    def __init__(self, items_max: int = limits.SCHEMA_CACHE_ITEMS_MAX) -> None:
        self._items_max = items_max
        self._costs: OrderedDict[bytes, SchemaCost] = OrderedDict()
        self._lock = Lock()

    def require(self, written: bytes, strict: bool, budget: SchemaBudget) -> None:
        """Checks the JSON of a schema, and charges its cost to the budget. InvalidSchema: it is no schema, or exceeds
        the budget."""
        key = hashlib.sha256(written).digest() + bytes([strict])
        with self._lock:
            cost = self._costs.get(key)
            if cost is not None:
                self._costs.move_to_end(key)
        if cost is not None:
            budget.take(cost)
            return
        cost = _check(written, strict, budget)
        with self._lock:
            self._costs[key] = cost
            while len(self._costs) > self._items_max:
                self._costs.popitem(last=False)

    def __len__(self) -> int:
        return len(self._costs)


PROCESS = CheckedSchemas()
"""The cache of this process. All tenants share it, because a schema is valid for every tenant or for none."""


def _check(written: bytes, strict: bool, budget: SchemaBudget) -> SchemaCost:
    """Checks a schema that is not in the cache, and returns its cost."""
    schemas.require_size(len(written))
    schema: Object = loads(written)
    outline = Outline(schema, nodes_max=limits.SCHEMAS_NODES_MAX)
    cost = cost_of(outline, size_bytes=len(written), compiles=strict)
    budget.take(cost)
    if strict:
        schemas.require_lengths(outline)
    schemas.require_schema(outline)
    kind = schema.get("type", "object")
    if kind != "object" and "object" not in kind:
        raise InvalidSchema((), f"the schema must have type 'object', but has type {kind!r}.")
    if strict:
        schemas.require_guidable(outline)
        strict_schemas.require(outline)
        schemas.compile_validator(outline)
    return cost
