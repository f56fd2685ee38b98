from __future__ import annotations

import pytest

from antiphon_core.jsons import dumps
from antiphon_core.limits import SCHEMA_BYTES_MAX, SCHEMAS_BYTES_MAX
from antiphon_translator.schemas.checked_schemas import CheckedSchemas
from antiphon_translator.schemas.schema_budget import SchemaBudget
from antiphon_translator.schemas.schema_outline import InvalidSchema


def test_only_valid_schemas_are_cached_up_to_the_limit() -> None:
    checked = CheckedSchemas(items_max=2)
    for _ in range(2):
        with pytest.raises(InvalidSchema):
            checked.require(b'{"type":"object","required":1}', False, SchemaBudget())
    assert len(checked) == 0
    for number in range(3):
        checked.require(b'{"type":"object","description":"%d"}' % number, False, SchemaBudget())
    assert len(checked) == 2


def test_cached_schemas_count_against_the_budget() -> None:
    checked, budget = CheckedSchemas(), SchemaBudget()
    long = dumps({"type": "object", "description": "x" * (SCHEMA_BYTES_MAX - 100)})
    with pytest.raises(InvalidSchema, match="schemas of the request"):
        for _ in range(SCHEMAS_BYTES_MAX // SCHEMA_BYTES_MAX + 1):
            checked.require(long, False, budget)
