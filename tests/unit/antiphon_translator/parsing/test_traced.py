from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.parsing import families
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Segment, Text
from antiphon_translator.parsing.traced import TracedOutput, TracedText
from tests.support.tool_calls.outcomes import joined
from tests.support.tool_calls.random_outputs import output_fuzzer, pieces_of
from tests.support.volume import volume

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
PIECES = ("<think>", "</think>", CALL, CALL[:20], "<tool_call>", " ", "\n", "a", "☃ b", "<", "[", '{"name": "f"')


def read(
    family: str, pieces: Sequence[str], *, traced: bool, cut_off: bool = False, stops: Sequence[str] = ()
) -> tuple[list[Segment], str]:
    """The segments of a parser, with the text that its watcher received."""
    seen: list[str] = []
    watch = seen.append if traced else None
    parser = OutputParser(families.load(family), schemas={"f": {}}, stops=stops, watch=watch)
    segments = [segment for piece in pieces for segment in parser.feed(piece)]
    return [*segments, *parser.finish(cut_off=cut_off)], "".join(seen)


def check(family: str, pieces: Sequence[str], stops: Sequence[str] = ()) -> None:
    """Checks that each text equals the source at its spans, in order, and that tracing does not change the segments."""
    plain, _ = read(family, pieces, traced=False, stops=stops)
    traced, seen = read(family, pieces, traced=True, stops=stops)
    assert seen == "".join(pieces)
    position = 0
    for segment in traced:
        assert isinstance(segment, TracedText) == isinstance(segment, Text)
        if isinstance(segment, TracedText):
            assert "".join(seen[start:end] for start, end in segment.spans) == segment.text, pieces
            assert segment.spans == tuple(sorted(segment.spans))
            assert segment.spans[0][0] >= position
            position = segment.spans[-1][1]
    assert joined([Text(each.text) if isinstance(each, TracedText) else each for each in traced]) == joined(plain)


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.sampled_from(("ab", "a\n", "☃", " b", "\n\n"))))
def test_traced_text_has_the_spans_of_its_source(pieces: list[str], stops: list[str]) -> None:
    check("hermes", pieces, stops)


@pytest.mark.parametrize("name", families.names())
def test_traced_text_of_every_family_has_the_spans_of_its_source(name: str) -> None:
    here = output_fuzzer(name, tokens=False)
    for seed in range(volume(30, 2_000)):
        chance = random.Random(seed)
        make_output = here.random_output if seed % 2 else here.quoted_markers
        check(name, pieces_of(make_output(chance, pieces=chance.randint(1, 12)), chance))


def test_text_of_gpt_oss_without_a_header_is_in_its_own_span() -> None:
    segments, _ = read("gpt_oss", ["Hi there<|end|><|start|>assistant", "<|message|>Yes."], traced=True)
    places = [(each.text, each.spans) for each in segments if isinstance(each, TracedText)]
    assert places == [("Hi there", ((0, 8),)), ("Yes.", ((44, 48),))]


def test_white_space_that_is_dropped_is_in_no_span() -> None:
    segments, _ = read("hermes", ["<think>so</think>", " \n a ", " b\n ", CALL, " c\n"], traced=True)
    texts = [(segment.text, segment.spans) for segment in segments if isinstance(segment, TracedText)]
    behind = 17 + 5 + 4 + len(CALL)
    assert texts == [
        *(("a", ((20, 21),)), ("  b", ((21, 22), (22, 24)))),
        *(("c", ((behind + 1, behind + 2),)), ("\n", ((behind + 2, behind + 3),))),
    ]


def test_traced_output_takes_spans_from_its_position() -> None:
    position = 100
    out = TracedOutput(lambda: position)
    out.text("abc ")
    position = 200
    out.text("d")
    assert out.take() == [TracedText("abc", ((96, 99),)), TracedText(" d", ((99, 100), (199, 200)))]


def test_marker_begun_by_the_prompt_does_not_shift_spans() -> None:
    parser = OutputParser(families.load("functionary32"), schemas={"f": {}}, prompt_tail=">>>", watch=lambda _: None)
    assert [*parser.feed("all\nHi"), *parser.finish()] == [TracedText("Hi", ((4, 6),))]
