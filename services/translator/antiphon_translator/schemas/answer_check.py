"""Checks a finished answer against the format that its request asked for.

The answer was streamed already, so it is neither repaired nor generated again. A mismatch means that the engine did not
keep to the grammar, or has none. It is logged and counted for the operator.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from antiphon_core.jsons import Object, loads
from antiphon_core.limits import ANSWER_CHECK_NODES_MAX, ANSWER_EXPLAIN_NODES_MAX
from antiphon_translator.schemas import schemas
from antiphon_translator.schemas.schema_outline import Outline, Place

log = logging.getLogger(__name__)

_NODES_PER_BYTE = 8  # to check a node takes 10 ns; to read, validate and copy a byte of JSON up to 80 ns
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
        """Describes where in the schema a value fails. With a recursive schema the search would take exponential time,
        unlike the validation, so it is left out."""
        if self._is_recursive or work > ANSWER_EXPLAIN_NODES_MAX:
            return "it does not match the schema"
        path = next((tuple(map(str, error.schema_path)) for error in self._validator.iter_errors(value)), ())
        return f"it does not match the schema at {path!r}"


def _nodes(place: Place) -> int:
    patterns = ("pattern" in place.keywords) + len(place.get("patternProperties", dict))
    return 1 + patterns * _PATTERN_NODES


@dataclass(slots=True)
class Mismatches:
    """Counts the answers that did not match their format."""

    count: int = 0

    def look_at(self, response: Object, check: AnswerCheck) -> None:
        """Checks the answer of a finished response; counts and logs a mismatch."""
        text = answer_of(response)
        mismatch = check.mismatch(text) if text is not None else None
        if mismatch is not None:
            self.count += 1
            log.warning("%s: the answer does not match its format: %s", response["id"], mismatch)


def answer_of(response: Object) -> str | None:
    """The text of the message that a response ends with; None if it ends with something else, a call for example."""
    last = response["output"][-1] if response["output"] else None
    if last is None or last["type"] != "message":
        return None
    return "".join(part["text"] for part in last["content"])
