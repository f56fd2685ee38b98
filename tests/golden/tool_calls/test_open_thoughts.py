"""Calls in a thought that the model never closed, in every family that has vectors with reasoning and calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from antiphon_translator.parsing import families
from tests.golden.tool_calls.test_vectors import from_ids, from_text
from tests.support.cases import in_one_test
from tests.support.tool_calls.outcomes import Outcome, cuts
from tests.support.tool_calls.vectors import Vector, all_vectors
from tests.support.tool_calls.vocabularies import vocabulary


def open_thoughts() -> Iterator[Vector]:
    """Yields the vectors with a thought before their calls, without the closer of the thought."""
    for vector in all_vectors():
        family, expected = families.load(vector.family), vector.expected or {}
        for opener, closer in family.reasoning if expected.get("reasoning") and expected.get("calls") else ():
            before, found, behind = vector.raw.partition(closer)
            is_open = opener in before or family.begins_in_reasoning(vector.prompt_tail)
            if found and is_open and any(each in behind and each not in before for each in family.openers):
                anything = {"reasoning": None, "text": None, "calls": expected["calls"]}
                raw = before + behind
                yield replace(
                    vector, id=f"{vector.family}/{vector.id}", raw=raw, expected=anything, ids=(), repository=""
                )
                break


VECTORS = list(open_thoughts())
NEVER_CLOSED = [
    vector for vector in VECTORS if not any(map(vector.raw.__contains__, families.load(vector.family).reasoning_close))
]


@in_one_test("vector", VECTORS)
def test_call_in_an_open_thought_ends_the_thought(vector: Vector) -> None:
    ids = vocabulary("", vector.markers).ids(vector)
    for read in (from_text(vector, [vector.raw]), from_ids(vector, [ids])):
        assert Outcome.of(read).agrees_with(vector.expected), read
        assert Outcome.of(read).reasoning
    assert all(from_text(vector, pieces) == from_text(vector, [vector.raw]) for pieces in cuts(vector.raw, at_random=2))


@in_one_test("vector", NEVER_CLOSED)
def test_call_of_a_tool_that_was_not_offered_stays_in_the_thought(vector: Vector) -> None:
    other = replace(vector, tools=({"type": "function", "name": "other", "parameters": {}},))
    outcome = Outcome.of(from_text(other, [other.raw]))
    assert not outcome.calls
    assert outcome.reasoning


def test_families_with_open_thoughts_are_those_that_end_thoughts_with_calls() -> None:
    assert len({vector.family for vector in VECTORS}) >= 25
    assert all(families.load(vector.family).call_ends_reasoning for vector in VECTORS)
