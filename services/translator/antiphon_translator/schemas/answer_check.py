"""Whether an answer is what was asked for, looked at when it is too late to change it.

Nothing is repaired and nothing is tried again: what was streamed was streamed. A mismatch means that the engine did not
keep to the grammar, or has none; it is logged and counted for whoever runs this.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from antiphon_core.jsons import Object, loads
from antiphon_core.limits import ANSWER_CHECK_NODES_MAX, ANSWER_EXPLAIN_NODES_MAX
from antiphon_translator.schemas import schemas
from antiphon_translator.schemas.schema_outline import Outline, Place

log = logging.getLogger(__name__)

_NODES_PER_BYTE = 8  # a node takes 10 ns; a byte of JSON, with its validation and copies, up to 80 ns
_PATTERN_NODES = 2_000  # what a pattern costs beside a schema without one, at its worst


class AnswerCheck:
    """Holds answers against one schema. Takes a few microseconds for a small answer, and lets nothing else run."""

    def __init__(self, outline: Outline) -> None:
        """`outline` is what `schemas.require_guidable` let pass. InvalidSchema: see `schemas.compiled`."""
        self._validator = schemas.compiled(outline)
        self._is_recursive = outline.is_recursive
        self._nodes = outline.weight(_nodes)

    def work_bytes(self, chars: int) -> int:
        """How long checking an answer of `chars` may take, in bytes of JSON that are read in that time."""
        return min(self._nodes * chars, ANSWER_CHECK_NODES_MAX) // _NODES_PER_BYTE

    def mismatch(self, text: str) -> str | None:
        """Describes the mismatch of an answer, in words that repeat nothing of the answer. None: the answer matches, or
        the check would take too long."""
        work = self._nodes * len(text)
        if work > ANSWER_CHECK_NODES_MAX:
            return None
        try:
            value = loads(text)
            return None if self._validator.is_valid(value) else self._explained(value, work)
        except ValueError:
            return "it cannot be read as JSON, or is nested too deep"

    def _explained(self, value: object, work: int) -> str:
        """Where in the schema it fails. Unlike the verdict, this takes exponential time if a schema is recursive."""
        if self._is_recursive or work > ANSWER_EXPLAIN_NODES_MAX:
            return "it does not match the schema"
        path = next((tuple(map(str, error.schema_path)) for error in self._validator.iter_errors(value)), ())
        return f"it does not match the schema at {path!r}"


def _nodes(place: Place) -> int:
    patterns = ("pattern" in place.keywords) + len(place.get("patternProperties", dict))
    return 1 + patterns * _PATTERN_NODES


@dataclass(slots=True)
class Mismatches:
    """How many answers were not what was asked for."""

    count: int = 0

    def look_at(self, response: Object, check: AnswerCheck) -> None:
        """Notes a finished response whose answer does not match."""
        text = answer_of(response)
        mismatch = check.mismatch(text) if text is not None else None
        if mismatch is not None:
            self.count += 1
            log.warning("%s: the answer is not what was asked for: %s", response["id"], mismatch)


def answer_of(response: Object) -> str | None:
    """The text of the message that a response ends with; None if it ends with something else, a call for example."""
    last = response["output"][-1] if response["output"] else None
    if last is None or last["type"] != "message":
        return None
    return "".join(part["text"] for part in last["content"])
