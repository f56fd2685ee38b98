"""Outputs that were once read wrongly, from text and from token ids, with many cuts."""

from __future__ import annotations

from antiphon_translator.parsing import families
from tests.golden.tool_calls.test_vectors import from_ids, from_text
from tests.support.cases import in_one_test
from tests.support.tool_calls.outcomes import Outcome, cuts
from tests.support.tool_calls.vectors import Vector, known_wrong
from tests.support.tool_calls.vocabularies import vocabulary

VECTORS = known_wrong()


@in_one_test("vector", VECTORS)
def test_known_wrong_output_is_read_correctly_from_text(vector: Vector) -> None:
    first, *others = (from_text(vector, pieces) for pieces in cuts(vector.raw))
    assert all(other == first for other in others)
    assert Outcome.of(first).agrees_with(vector.expected), first


@in_one_test("vector", VECTORS)
def test_known_wrong_output_is_read_correctly_from_token_ids(vector: Vector) -> None:
    ids = vocabulary(vector.repository, vector.markers).ids(vector)
    first, *others = (from_ids(vector, pieces) for pieces in cuts(ids))
    assert all(other == first for other in others)
    assert Outcome.of(first).agrees_with(vector.expected), first


def test_every_known_wrong_vector_has_a_source_and_a_family() -> None:
    assert len(VECTORS) == 60
    assert {vector.family for vector in VECTORS} <= set(families.names())
    assert all(vector.source for vector in VECTORS)
    assert all(vector.markers for vector in VECTORS)
