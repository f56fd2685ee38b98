"""Outputs of each family's models, of any length: a vector of the family with one of its texts lengthened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from antiphon_core.jsons import Object
from antiphon_translator.parsing import families
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, Reasoning, Text, Unread
from tests.support.tool_calls.vectors import Vector, all_vectors

LETTERS_MIN = 3  # a text needs so many letters to be recognised
# Contains beginnings of markers, as code does, and no characters that JSON escapes.
LINE = "if (a < b && list[3] > 0) { call(x); } // naïve Größe 北京 3.14 and so on; "
TRIED_CHARS = 5 * len(LINE)

_KINDS: dict[str, type[Text | Reasoning | Arguments]] = {
    "content": Text,
    "reasoning": Reasoning,
    "arguments": Arguments,
}
PARTS = tuple(_KINDS)


@dataclass(frozen=True)
class Sample:
    """An output that consists of `before`, any length of `LINE`, and `behind`. `markers` are its control tokens."""

    family: str
    part: str
    before: str
    behind: str
    prompt_tail: str
    schemas: dict[str, Object]
    markers: tuple[str, ...] = ()

    def text(self, chars: int) -> str:
        stretched = (LINE * (chars // len(LINE) + 1))[:chars]
        return f"{self.before}{stretched}{self.behind}"

    def parser(self) -> OutputParser:
        return OutputParser(families.load(self.family), schemas=self.schemas, prompt_tail=self.prompt_tail)


@cache
def sample(family: str, part: str) -> Sample | None:
    """Returns the sample with the most pieces, if possible one that is read without loss. None: no vector of the family
    has such a text."""
    found = [(told, each) for each in (*_plain(family, part), *_stretched(family, part)) if (told := _told(each))]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _plain(family: str, part: str) -> Iterator[Sample]:
    """Yields a sample without a vector, for texts that need only an opening marker before them."""
    table = families.load(family)
    if table.grammar is not None:
        return
    nothing = Sample(family, part, "", "", "", {"f": {}})
    if part == "content":
        yield nothing
    elif part == "reasoning" and table.reasoning:
        yield replace(nothing, before=table.reasoning[0][0])


def _stretched(family: str, part: str) -> Iterator[Sample]:
    for vector in all_vectors():
        if vector.family == family and vector.expected is not None:
            for text in _texts(vector, part):
                if len(text) >= LETTERS_MIN and vector.raw.count(text) == 1:
                    before, _, behind = vector.raw.partition(text)
                    schemas = vector.schemas or {}
                    yield Sample(family, part, before, behind, vector.prompt_tail, schemas, vector.markers)


def _texts(vector: Vector, part: str) -> Iterator[str]:
    expected = vector.expected or {}
    if part == "arguments":
        values = (value for call in expected["calls"] for value in call["arguments"].values())
        yield from (value for value in values if isinstance(value, str))
    else:
        yield (expected["text" if part == "content" else part] or "").strip()


def _told(given: Sample) -> tuple[bool, int] | None:
    """Returns whether the whole output was used, and the number of pieces of the lengthened text. None: the text is
    read as another part."""
    parser, text = given.parser(), given.text(TRIED_CHARS)
    pieces = [text[at : at + 1] for at in range(len(text))]
    segments = [*(segment for piece in pieces for segment in parser.feed(piece)), *parser.finish()]
    told = [each.text for each in segments if isinstance(each, _KINDS[given.part])]
    if "".join(told).count(LINE.strip()) < TRIED_CHARS // len(LINE):
        return None
    return not any(isinstance(each, Unread) for each in segments), len(told)
