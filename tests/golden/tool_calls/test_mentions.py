"""Text that only speaks of a family's markers comes out as it was written, all of it, wherever it speaks of them."""

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
    list(zip(cycle(QUOTED), [*PLACES, *PLACES], strict=False)),
    list(product(QUOTED, PLACES)),
)
"""Each position with two kinds of quotes; at night with all of them."""
EVERY = volume(3, 1)
"""Of the positions between words, a marker is tried at each third one, and the next marker at those behind them."""
FAMILIES = families.names()
TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])


def spoken_of(here: OutputFuzzer) -> Iterator[str]:
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
def test_an_answer_may_quote_each_marker_at_every_position(name: str, tokens: bool) -> None:
    here = output_fuzzer(name, tokens=tokens)
    for marker in spoken_of(here):
        for quoted, place in QUOTED_PLACES:
            text = " ".join([*WORDS[:place], quoted.replace("%", marker), *WORDS[place:]])
            told = read(here.family, text, size=3)
            assert [each for each in told if isinstance(each, Text)] == told[-1:] == [Text(text)], (quoted, marker)


@TOKENS
@pytest.mark.parametrize("name", FAMILIES)
def test_an_answer_may_speak_of_each_marker_between_its_words(name: str, tokens: bool) -> None:
    here = output_fuzzer(name, tokens=tokens)
    for number, marker in enumerate(spoken_of(here)):
        for place in PLACES[1 + number % EVERY : -1 : EVERY]:
            if WORDS[place - 1].endswith((".", "\n\nA")) or WORDS[place].startswith("on."):
                continue
            text = " ".join([*WORDS[:place], marker, *WORDS[place:]])
            assert read(here.family, text, size=1)[-1:] == [Text(text)], marker


@TOKENS
@pytest.mark.parametrize("name", [name for name in FAMILIES if families.load(name).reasoning])
def test_thoughts_may_quote_each_marker_at_every_position(name: str, tokens: bool) -> None:
    here = output_fuzzer(name, tokens=tokens)
    opener, closer = here.family.reasoning[0]
    for number, marker in enumerate(spoken_of(here)):
        for place in PLACES[1 + number % EVERY : -1 : EVERY]:
            text = " ".join([*WORDS[:place], f"`{marker}`", *WORDS[place:]])
            told = read(here.family, f"{text}{closer}Hi", size=5, tail=opener)
            assert told == [Reasoning(text), Text("Hi")], (marker, place)
