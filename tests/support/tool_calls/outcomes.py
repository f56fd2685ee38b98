"""The joined outcome of a parser, and its comparison with the expected outcome."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from antiphon_core.jsons import Object
from antiphon_translator.parsing.segments import (
    Arguments,
    Break,
    CallBegin,
    CallEnd,
    Reasoning,
    Segment,
    Text,
)
from tests.support.volume import volume

_Unit = TypeVar("_Unit")

RANDOM_CUTS = volume(5, 20)
PIECE_MAX = 8


def joined(segments: Iterable[Segment]) -> list[Segment]:
    """Joins neighbouring segments of one kind, so that the result does not depend on the cuts of the input."""
    whole: list[Segment] = []
    for segment in segments:
        last = whole[-1] if whole else None
        if isinstance(segment, Text | Reasoning | Arguments) and type(last) is type(segment):
            whole[-1] = type(segment)(last.text + segment.text)
        else:
            whole.append(segment)
    return whole


def cuts(whole: Sequence[_Unit], *, at_random: int = RANDOM_CUTS) -> Iterator[list[Sequence[_Unit]]]:
    """Yields a sequence in one piece, unit by unit, and cut at random with fixed seeds."""
    yield [whole]
    yield [whole[at : at + 1] for at in range(len(whole))]
    for seed in range(at_random):
        chance = random.Random(seed)
        pieces, at = [], 0
        while at < len(whole):
            size = chance.randint(1, PIECE_MAX)
            pieces.append(whole[at : at + size])
            at += size
        yield pieces


@dataclass(frozen=True)
class Outcome:
    """The calls and texts of an output. Incomplete calls are left out, because they must not be run."""

    text: str | None
    reasoning: str | None
    calls: list[tuple[str, str]]

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> Outcome:
        text: list[str] = []
        reasoning: list[str] = []
        calls: list[tuple[str, str]] = []
        name, arguments = "", ""
        last: Segment | None = None
        for segment in joined(segments):
            match segment:
                case Text(part):
                    text.append(part)
                case Reasoning(part):
                    reasoning += ["\n", part] if isinstance(last, Break) else [part]
                case CallBegin(name):
                    arguments = ""
                case Arguments(arguments):
                    pass
                case CallEnd(is_complete=True):
                    calls.append((name, arguments))
            last = segment
        return cls("".join(text).strip() or None, "".join(reasoning).strip() or None, calls)

    def is_what(self, expected: Object | None) -> bool:
        """Compares texts without outer white space, and arguments as JSON with the types of their values."""
        if expected is None:
            return not self.calls
        texts = [(expected[key] or "").strip() or None for key in ("text", "reasoning")]
        return texts == [self.text, self.reasoning] and self._has_the_calls_of(expected)

    def agrees_with(self, expected: Object | None) -> bool:
        """Compares like `is_what`, but a text that is None in `expected` may be anything, and thoughts are joined."""
        assert expected is not None
        written = {"text": self.text or "", "reasoning": (self.reasoning or "").replace("\n", "")}
        wanted = {"text": expected["text"], "reasoning": (expected["reasoning"] or "").replace("\n", "")}
        is_same = all(expected[key] is None or wanted[key].strip() == written[key] for key in wanted)
        return is_same and self._has_the_calls_of(expected)

    def _has_the_calls_of(self, expected: Object) -> bool:
        return [call["name"] for call in expected["calls"]] == [name for name, _ in self.calls] and all(
            _same(json.loads(arguments), call["arguments"])
            for (_, arguments), call in zip(self.calls, expected["calls"], strict=True)
        )


def _same(one: Any, other: Any) -> bool:
    """Compares values, with true different from 1."""
    return json.dumps(_plain(one), sort_keys=True) == json.dumps(_plain(other), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
