"""Text that only mentions the markers of a family is shown completely and as written, at every position."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product

import pytest

from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Reasoning, Segment, Text
from tests.support.tool_calls.outcomes import joined
from tests.support.tool_calls.random_outputs import SCHEMAS, OutputFuzzer, output_fuzzer
from tests.support.volume import volume

WORDS = "The model writes a tag and then goes on.\n\nA second paragraph follows, with more words.".split(" ")
QUOTED = ("`%`", '"%"', "'%'", "**%**", "(%)")
PLACES = range(len(WORDS) + 1)
QUOTED_PLACES = volume(
    list(zip(cycle(QUOTED), PLACES, strict=False)),
    list(product(QUOTED, PLACES)),
)
"""Each position with one kind of quotes, or with all kinds in the nightly run."""
EVERY = volume(4, 1)
"""Each marker is tried at every fourth position between words, or at all positions in the nightly run."""
FAMILIES = families.names()
TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])


def mentionable_markers(here: OutputFuzzer) -> Iterator[str]:
    """Markers that cannot be mistaken for a word or a piece of JSON."""
    for marker in here.markers:
        if any(each in "<[|◁" or "\ud800" <= each <= "\udfff" for each in marker):
            yield marker


def read(family: Family, text: str, *, size: int, tail: str = "") -> list[Segment]:
    parser = OutputParser(family, schemas=SCHEMAS, prompt_tail=tail)
    segments = [each for at in range(0, len(text), size) for each in parser.feed(text[at : at + size])]
    return joined([*segments, *parser.finish()])


@TOKENS
@pytest.mark.parametrize("name", FAMILIES)
def test_marker_quoted_in_an_answer_is_text(name: str, tokens: bool) -> None:
    here = output_fuzzer(name, tokens=tokens)
    for marker in mentionable_markers(here):
        for quoted, place in QUOTED_PLACES:
            text = " ".join([*WORDS[:place], quoted.replace("%", marker), *WORDS[place:]])
            told = read(here.family, text, size=3)
            assert [each for each in told if isinstance(each, Text)] == told[-1:] == [Text(text)], (quoted, marker)


@TOKENS
@pytest.mark.parametrize("name", FAMILIES)
def test_marker_mentioned_within_a_sentence_is_text(name: str, tokens: bool) -> None:
    here = output_fuzzer(name, tokens=tokens)
    for number, marker in enumerate(mentionable_markers(here)):
        for place in PLACES[1 + number % EVERY : -1 : EVERY]:
            if WORDS[place - 1].endswith((".", "\n\nA")) or WORDS[place].startswith("on."):
                continue
            text = " ".join([*WORDS[:place], marker, *WORDS[place:]])
            assert read(here.family, text, size=1)[-1:] == [Text(text)], marker


@TOKENS
@pytest.mark.parametrize("name", [name for name in FAMILIES if families.load(name).reasoning])
def test_marker_quoted_in_reasoning_stays_reasoning(name: str, tokens: bool) -> None:
    here = output_fuzzer(name, tokens=tokens)
    opener, closer = here.family.reasoning[0]
    for number, marker in enumerate(mentionable_markers(here)):
        for place in PLACES[1 + number % EVERY : -1 : EVERY]:
            text = " ".join([*WORDS[:place], f"`{marker}`", *WORDS[place:]])
            told = read(here.family, f"{text}{closer}Hi", size=5, tail=opener)
            assert told == [Reasoning(text), Text("Hi")], (marker, place)
