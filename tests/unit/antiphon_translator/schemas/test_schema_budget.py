from __future__ import annotations

import pytest

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_translator.schemas.schema_budget import SchemaBudget, SchemaCost, cost_of
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline

SCHEMA: Object = {
    "properties": {"a": {"pattern": "ab"}, "b": {"pattern": "ab"}},
    "patternProperties": {"abc": True},
}


def test_cost_of_a_schema_counts_bytes_nodes_and_patterns() -> None:
    outline = Outline(SCHEMA)
    assert cost_of(outline, size_bytes=7, compiles=True) == SchemaCost(7, 4, 5)
    assert cost_of(outline, size_bytes=7, compiles=False) == SchemaCost(7, 4, 0)


def test_ten_enum_values_count_as_one_node() -> None:
    schema: Object = {"anyOf": [{"enum": list(range(99))}, {"enum": [1]}]}
    assert cost_of(Outline(schema), size_bytes=7, compiles=False) == SchemaCost(7, 3 + 10, 0)


@pytest.mark.parametrize(
    ("half", "words"),
    [
        (SchemaCost(limits.SCHEMAS_BYTES_MAX // 2, 0, 0), "bytes"),
        (SchemaCost(0, limits.SCHEMAS_NODES_MAX // 2, 0), "schemas in each other"),
        (SchemaCost(0, 0, limits.SCHEMAS_PATTERN_US_MAX // 2), "to compile"),
    ],
)
def test_schemas_of_a_request_over_the_common_limit_are_rejected(half: SchemaCost, words: str) -> None:
    budget = SchemaBudget()
    budget.take(half)
    budget.take(half)
    with pytest.raises(InvalidSchema, match=words):
        budget.take(SchemaCost(1, 1, 1))
