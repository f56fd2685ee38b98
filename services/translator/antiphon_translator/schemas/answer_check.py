"""Checks a finished answer against the format that its request asked for.

The client already has the streamed answer, so the answer is neither repaired nor generated again. A mismatch means that
the engine did not keep to the grammar, or does not support grammars. GenerationWatch logs and counts mismatches
for the operator.

Schema and answer are written by a client and its model, and the library holds the GIL until it is done. So the work is
estimated before, in nodes of 10 ns, from what is known of both: how often a value can be visited, times the values. An
answer whose check would take too long, or more than its tenant's budget, stays unchecked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeGuard

from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import ANSWER_CHECK_NODES_MAX, ANSWER_EXPLAIN_NODES_MAX, JSON_VALUES_MAX
from antiphon_translator.schemas import pattern_cost, schemas
from antiphon_translator.schemas.schema_outline import Outline, Place

_NODES_PER_BYTE = 8  # checking a node takes 10 ns; reading, validating and copying a byte of JSON up to 80 ns
# In nodes, as measured with the worst values (tests/unit/.../test_answer_check.py has the schemas):
_NODE_CHARS = 500  # lengths and comparisons: so many characters of a string take as long as a node
_PART_NODES = 16  # to compare one value inside an object or array with that of a constant
_INTEGER_MULTIPLE, _SMALL_MULTIPLE, _ANY_MULTIPLE = 150, 1_500, 4_500  # multipleOf; decimals are exact fractions
_SMALL = 10.0**20
_PATTERN_COST_PER_NODE = 16  # of pattern_cost, for each character that the pattern is matched with


class Unchecked(Exception):
    """The answer was not checked: the check would take too long."""


class AnswerCheck:
    """Checks answers against one schema. A check takes a few microseconds for a small answer, and holds the GIL."""

    def __init__(self, outline: Outline) -> None:
        """`outline` has passed `schemas.require_guidable`. InvalidSchema: see `schemas.compiled`."""
        self._validator = schemas.compile_validator(outline)
        self._is_recursive = outline.is_recursive
        self._nodes_per_value = outline.weight(_nodes)
        self._nodes_per_char = outline.weight(_pattern_nodes)

    def work_bytes(self, chars: int) -> int:
        """The most that the check of an answer of `chars` characters costs, as the bytes of JSON that could be read in
        that time."""
        return min(self._nodes(chars, chars), ANSWER_CHECK_NODES_MAX) // _NODES_PER_BYTE

    def mismatch_of(self, output: Sequence[Object], may_take: Callable[[int], bool] = lambda _: True) -> str | None:
        """Describes the mismatch of the answer in a response's output items as `mismatch` does. None: also if the last
        one is no message."""
        text = answer_of(output)
        return self.mismatch(text, may_take) if text is not None else None

    def mismatch(self, text: str, may_take: Callable[[int], bool] = lambda _: True) -> str | None:
        """Describes the mismatch of an answer without repeating any of its text. None: the answer matches.

        `may_take` gets the work of the check, in nodes. Unchecked: it returns False, or the work exceeds the limit."""
        values = 1 + sum(map(text.count, ",[{"))  # too many, if texts have commas
        work = self._nodes(values, len(text))
        if values > JSON_VALUES_MAX or work > ANSWER_CHECK_NODES_MAX or not may_take(work):
            raise Unchecked
        try:
            value = loads(text)
            return None if self._validator.is_valid(value) else self._explain(value, work)
        except ValueError:
            return "it cannot be read as JSON, or is nested too deep"

    def _nodes(self, values: int, chars: int) -> int:
        return self._nodes_per_value * (values + chars // _NODE_CHARS) + self._nodes_per_char * chars

    def _explain(self, value: object, work: int) -> str:
        """Describes the mismatch of a value, with the part of the schema that it violates. The part is not looked up if
        that would take too long: for a large answer, or for a recursive schema, where it takes exponential time."""
        if self._is_recursive or work > ANSWER_EXPLAIN_NODES_MAX:
            return "it does not match the schema"
        path = next((tuple(map(str, error.schema_path)) for error in self._validator.iter_errors(value)), ())
        return f"it does not match the schema at {path!r}"


def answer_of(output: Sequence[Object]) -> str | None:
    """The text of the message that output items end with; None if they end with something else, such as a call or a
    refusal. Texts may be fragments of JSON."""
    last = output[-1] if output else None
    if last is None or last["type"] != "message":
        return None
    parts = last["content"]
    return "".join(loads(dumps(part["text"])) for part in parts) if all("text" in part for part in parts) else None


def _nodes(place: Place) -> int:
    """The cost of checking a value at one place of a schema, without its patterns."""
    names = len(place.get("properties", dict)) + len(place.get("required", list))
    constants = [place.keywords["const"]] if "const" in place.keywords else []
    options = place.get("enum", list)
    if len({type(option) for option in options} - {bool, type(None)}) > 1 or any(map(_is_container, options)):
        constants += options  # others are looked up in a set
    return 1 + names + sum(map(_comparison, constants)) + _multiple(place.keywords.get("multipleOf"))


def _is_container(value: object) -> TypeGuard[dict[str, object] | list[object]]:
    return isinstance(value, dict | list)


def _comparison(constant: object) -> int:
    """The cost of comparing a value with a constant."""
    waiting, parts = [constant], 0
    while waiting:
        one = waiting.pop()
        parts += 1
        if _is_container(one):
            waiting += one.values() if isinstance(one, dict) else one
    return parts * _PART_NODES if parts > 1 else 1


def _multiple(of: object) -> int:
    """The cost of `multipleOf`, if the schema has it."""
    if not isinstance(of, int | float):
        return 0
    if isinstance(of, int):
        return _INTEGER_MULTIPLE
    return _SMALL_MULTIPLE if 1 / _SMALL < abs(of) < _SMALL else _ANY_MULTIPLE


def _pattern_nodes(place: Place) -> int:
    """The cost of matching a character with the patterns at one place of a schema."""
    own = [place.get("pattern", str)] if "pattern" in place.keywords else []
    patterns = [*own, *place.get("patternProperties", dict)]
    return sum(1 + math.ceil(pattern_cost.of(pattern) / _PATTERN_COST_PER_NODE) for pattern in patterns)
