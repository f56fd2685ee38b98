"""Checks a finished answer against the format that its request asked for.

The client already has the streamed answer, so the answer is neither repaired nor generated again. A mismatch means that
the engine did not keep to the grammar, or does not support grammars. GenerationWatch logs and counts mismatches
for the operator.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.jsons import Object, loads
from antiphon_core.limits import ANSWER_CHECK_NODES_MAX, ANSWER_EXPLAIN_NODES_MAX
from antiphon_translator.schemas import schemas
from antiphon_translator.schemas.schema_outline import Outline, Place

_NODES_PER_BYTE = 8  # checking a node takes 10 ns; reading, validating and copying a byte of JSON up to 80 ns
_PATTERN_NODES = 2_000  # the worst cost of a pattern, in nodes of schemas without one


class AnswerCheck:
    """Checks answers against one schema. A check takes a few microseconds for a small answer, and holds the GIL."""

    def __init__(self, outline: Outline) -> None:
        """`outline` has passed `schemas.require_guidable`. InvalidSchema: see `schemas.compiled`."""
        self._validator = schemas.compiled(outline)
        self._is_recursive = outline.is_recursive
        self._nodes = outline.weight(_nodes)

    def work_bytes(self, chars: int) -> int:
        """The cost of checking an answer of `chars` characters, as the bytes of JSON that could be read in that
        time."""
        return min(self._nodes * chars, ANSWER_CHECK_NODES_MAX) // _NODES_PER_BYTE

    def mismatch_of(self, output: Sequence[Object]) -> str | None:
        """Describes the mismatch of the answer in a response's output items as `mismatch` does. None: also if the last
        one is no message."""
        text = answer_of(output)
        return self.mismatch(text) if text is not None else None

    def mismatch(self, text: str) -> str | None:
        """Describes the mismatch of an answer without repeating any of its text. None: the answer matches, or the check
        would take too long."""
        work = self._nodes * len(text)
        if work > ANSWER_CHECK_NODES_MAX:
            return None
        try:
            value = loads(text)
            return None if self._validator.is_valid(value) else self._explained(value, work)
        except ValueError:
            return "it cannot be read as JSON, or is nested too deep"

    def _explained(self, value: object, work: int) -> str:
        """Describes the mismatch of a value, with the part of the schema that it violates. The part is not looked up if
        that would take too long: for a large answer, or for a recursive schema, where it takes exponential time."""
        if self._is_recursive or work > ANSWER_EXPLAIN_NODES_MAX:
            return "it does not match the schema"
        path = next((tuple(map(str, error.schema_path)) for error in self._validator.iter_errors(value)), ())
        return f"it does not match the schema at {path!r}"


def _nodes(place: Place) -> int:
    """The cost of checking a value at one place of a schema, in nodes without a pattern."""
    patterns = ("pattern" in place.keywords) + len(place.get("patternProperties", dict))
    return 1 + patterns * _PATTERN_NODES


def answer_of(output: Sequence[Object]) -> str | None:
    """The text of the message that output items end with; None if they end with something else, such as a call or a
    refusal."""
    last = output[-1] if output else None
    if last is None or last["type"] != "message":
        return None
    parts = last["content"]
    return "".join(part["text"] for part in parts) if all("text" in part for part in parts) else None
