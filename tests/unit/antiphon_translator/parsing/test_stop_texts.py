from __future__ import annotations

from itertools import pairwise
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.parsing.stop_texts import StopTexts


def shown(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    texts = StopTexts(stops)
    found = "".join(map(texts.feed, pieces))
    return (found, True) if texts.is_matched else (found + texts.finish(), False)


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("one two three", ["two"], ("one ", True)),
        ("one two three", ["four"], ("one two three", False)),
        ("one two three", [], ("one two three", False)),
        ("one two three", ["", "two"], ("one ", True)),
        ("xabc", ["xabc", "ab"], ("x", True)),  # the shorter stop text "ab" is complete first
        ("xab", ["ab", "xab"], ("", True)),  # both end at one position: the longer stop text wins
        ("aaab", ["aab"], ("a", True)),
        ("one two", ["two!"], ("one two", False)),
    ],
)
def test_stop_text_ends_the_output_in_any_pieces(text: str, stops: list[str], expected: tuple[str, bool]) -> None:
    assert shown([text], stops) == expected
    assert shown(list(text), stops) == expected


def test_stop_text_that_matched_is_known() -> None:
    texts = StopTexts(["two", "one"])
    texts.feed("a t")
    assert texts.found == ""
    texts.feed("wo one")
    assert texts.found == "two"


def test_possible_beginning_of_a_stop_text_is_held_back() -> None:
    texts = StopTexts(["END"])
    assert [texts.feed(piece) for piece in ("a E", "N", "d", "EN", "D!")] == ["a ", "", "ENd", "", ""]
    assert texts.is_matched
    assert texts.feed("more") == ""


@given(st.text("ab", max_size=12), st.lists(st.text("ab", max_size=4), max_size=3), st.sets(st.integers(1, 11)))
def test_stop_text_matching_does_not_depend_on_the_pieces(text: str, stops: list[str], cuts: set[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert shown(pieces, stops) == shown([text], stops)


def test_nothing_is_compared_in_text_where_no_stop_text_can_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = StopTexts([f"zz{number}" + "." * 240 for number in range(16)])
    search = Mock(return_value=0)
    monkeypatch.setattr(StopTexts, "_held_length", search)
    assert [texts.feed(piece) for piece in ("some ", "plain ", "words")] == ["some ", "plain ", "words"]
    search.assert_not_called()


@given(st.lists(st.text("ab", max_size=6), min_size=1, max_size=5), st.lists(st.text("ab", max_size=9), max_size=3))
def test_match_in_the_next_text_is_foreseen(pieces: list[str], stops: list[str]) -> None:
    texts = StopTexts(stops)
    for piece in pieces:
        may_match = texts.may_match_in(piece)
        texts.feed(piece)
        assert texts.is_matched == may_match
        if may_match:
            break
