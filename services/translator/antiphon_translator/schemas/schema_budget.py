"""The budget of all schemas of one request: their bytes, their nested schemas, and the time to compile their patterns.

The limits of a single schema do not limit the sum of hundreds of tools: eight requests of 60 tools with 32 patterns
each blocked all other requests for 27 s. A schema is charged before the library compiles it. A schema in the cache is
charged as well, and so are those of a cached history, so that a request is accepted or rejected regardless of what is
cached.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_core import limits
from antiphon_core.values import value
from antiphon_translator.schemas import pattern_cost
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline, Place

VALUES_OF_A_NODE = 10
"""How many enum values take as long to check as one nested schema: 14 us."""


@value
class SchemaCost:
    """The cost of one schema. `nodes` are its nested schemas, and a tenth of its enum values: to check a value takes a
    tenth of the time. `pattern_cost` is 0 where its patterns are not compiled."""

    size_bytes: int
    nodes: int
    pattern_cost: int


NO_COST = SchemaCost(0, 0, 0)


def cost_of(outline: Outline, *, size_bytes: int, compiles: bool) -> SchemaCost:
    places = outline.places.values()
    patterns = {pattern for place in places for pattern in _patterns(place)} if compiles else set()
    values = sum(len(place.get("enum", list)) for place in places)
    return SchemaCost(size_bytes, len(places) + values // VALUES_OF_A_NODE, sum(map(pattern_cost.of, patterns)))


@dataclass(slots=True)
class SchemaBudget:
    """The budget of one request. `spent` is the sum of the costs that were charged to it."""

    spent: SchemaCost = NO_COST

    def take(self, cost: SchemaCost) -> None:
        """Charges the cost of a schema. InvalidSchema: the schemas so far exceed a limit of the request."""
        self.spent = spent = _sum(self.spent, cost)
        _require(spent.size_bytes, limits.SCHEMAS_BYTES_MAX, "are {} bytes long")
        _require(spent.nodes, limits.SCHEMAS_NODES_MAX, "have {} schemas in each other")
        _require(spent.pattern_cost, limits.SCHEMAS_PATTERN_US_MAX, "have patterns that would take {} us to compile")


def _sum(one: SchemaCost, other: SchemaCost) -> SchemaCost:
    return SchemaCost(one.size_bytes + other.size_bytes, one.nodes + other.nodes, one.pattern_cost + other.pattern_cost)


def _require(taken: int, limit: int, words: str) -> None:
    if taken > limit:
        message = f"with this one, the schemas of the request {words.format(taken)}; at most {limit} are possible."
        raise InvalidSchema((), message)


def _patterns(place: Place) -> list[str]:
    own = [place.get("pattern", str)] if "pattern" in place.keywords else []
    return [*own, *place.get("patternProperties", dict)]
