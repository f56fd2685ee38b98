from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.logprobs.alignment import Alignment
from antiphon_translator.parsing.segments import CallBegin, ScoredText, ScoredToken, Segment
from antiphon_translator.parsing.traced import TracedText

T = TypeVar("T", str, bytes)


class Aligned:
    """An alignment, with methods that add shown and hidden text."""

    def __init__(self) -> None:
        self.alignment = Alignment()
        self._read = 0

    def tokens(self, *written: bytes | str) -> None:
        for each in written:
            data = each.encode("utf-8", "replace") if isinstance(each, str) else each
            self.alignment.token(ScoredToken(data, 0.0), each)

    def hidden(self, text: str) -> None:
        self.alignment.text(text)
        self._read += len(text)

    def shown(self, text: str) -> list[bytes]:
        """The tokens of the next text."""
        start = self._read
        self.hidden(text)
        return self.at(text, (start, self._read))

    def at(self, text: str, *spans: tuple[int, int]) -> list[bytes]:
        (segment,) = self.alignment.score([TracedText(text, spans)])
        assert isinstance(segment, ScoredText)
        assert segment.text == text
        return [token.written for token in segment.tokens]


def test_tokens_go_with_the_text_that_they_wrote() -> None:
    made = Aligned()
    made.tokens(b"Hel", b"lo", b" there")
    assert made.shown("Hello there") == [b"Hel", b"lo", b" there"]


def test_late_text_gets_the_tokens_that_were_kept() -> None:
    made = Aligned()
    made.tokens(b"\xe2")
    made.tokens(b"\x98", b"\x83 ", b"b")
    assert made.shown("☃") == [b"\xe2", b"\x98", b"\x83 "]
    assert made.shown(" ") == []  # the token came with its first character
    assert made.shown("b") == [b"b"]


def test_token_goes_with_its_first_shown_character() -> None:
    made = Aligned()
    made.tokens(b"a.\n\n", b"\n", b"b")
    made.hidden("a.\n\n\nb")
    assert made.at("a.", (0, 2)) == [b"a.\n\n"]
    assert made.at("b", (5, 6)) == [b"b"]


def test_token_without_shown_text_is_left_out() -> None:
    made = Aligned()
    made.tokens(b"a", b"\n", b"", "\ud800", b"b")
    made.hidden("a\n\ud800b")
    assert made.at("ab", (0, 1), (3, 4)) == [b"a", b"b"]


def test_broken_character_has_only_its_own_tokens() -> None:
    made = Aligned()
    made.tokens(b"\xe2", b"\x98", b"\xe2", b"A")
    made.hidden("��A")
    assert made.at("�", (0, 1)) == [b"\xe2", b"\x98"]
    assert made.at("�", (1, 2)) == [b"\xe2"]
    assert made.at("A", (2, 3)) == [b"A"]
    made.tokens(b"\xef", b"\xbf", b"\xbdB")
    assert made.shown("�B") == [b"\xef", b"\xbf", b"\xbdB"]
    made.tokens(b"\xe2", "<x>")
    assert made.shown("�<x>") == [b"\xe2", b"<x>"]


def test_tokens_of_a_left_out_character_are_left_out() -> None:
    made = Aligned()
    made.tokens(b"a\xe2", b"\x98")
    assert made.shown("a") == [b"a\xe2"]


def test_text_without_tokens_does_not_shift_the_next_tokens() -> None:
    made = Aligned()
    assert made.shown("begun") == []
    made.tokens(b"a")
    assert made.shown("a") == [b"a"]
    made.tokens(b"b")
    assert made.shown("b, and more") == [b"b"]
    made.tokens(b"c")
    assert made.shown("c") == [b"c"]


def test_tokens_of_other_text_are_skipped() -> None:
    made = Aligned()
    made.tokens(b"</think>", b"\n\n", b"So")
    assert made.shown("So") == [b"So"]
    made.tokens(b" be", b" it", b"</s>")
    assert made.shown("be") == [b" be"]
    assert made.shown(" it") == [b" it"]


def test_exact_token_wins_over_one_that_contains_the_text() -> None:
    made = Aligned()
    made.tokens(b"</think>", b"think")
    assert made.shown("think") == [b"think"]


def test_text_that_matches_no_token_gets_all_kept_tokens() -> None:
    made = Aligned()
    made.tokens(b"\xff", b"\xfe")
    assert made.shown("???") == [b"\xff", b"\xfe"]
    made.tokens(b"\xe2", b"ab", b"c")
    assert made.shown("x") == [b"\xe2", b"ab", b"c"]
    made.tokens(b"d")
    assert made.shown("d") == [b"d"]  # and the next ones are exact again


def test_bytes_of_an_abandoned_character_are_no_part_of_the_next() -> None:
    made = Aligned()
    made.tokens(b"\xe2")
    assert made.shown("�") == [b"\xe2"]
    made.tokens(b"\x98", b"\x83x")
    assert [made.shown(text) for text in ("�", "�x")] == [[b"\x98"], [b"\x83x"]]


def test_forgotten_tokens_are_left_out() -> None:
    made = Aligned()
    made.tokens(b"ab", b'{"a":', b" 1}", b"\xe2")
    made.hidden("a")
    made.alignment.forget()
    made.tokens(b"So")
    assert made.shown("So") == [b"So"]


def test_neighbouring_texts_are_merged_and_other_segments_stay() -> None:
    made = Aligned()
    made.tokens(b"a", b"b", b"c")
    made.hidden("abc")
    told = made.alignment.score(
        [TracedText("a", ((0, 1),)), TracedText("b", ((1, 2),)), CallBegin("f"), TracedText("c", ((2, 3),))]
    )
    expected: list[Segment] = [
        ScoredText("ab", (ScoredToken(b"a", 0.0), ScoredToken(b"b", 0.0))),
        CallBegin("f"),
        ScoredText("c", (ScoredToken(b"c", 0.0),)),
    ]
    assert told == expected


def cut(data: T, edges: Sequence[int]) -> list[T]:
    """Data in pieces, some of them empty."""
    bounds = [0, *sorted(edge % (len(data) + 1) for edge in edges), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


EDGES = st.lists(st.integers(0, 1000), max_size=8)


@given(st.text(st.characters(codec="utf-8")), EDGES, EDGES)
def test_each_token_appears_once_however_tokens_and_text_are_cut(text: str, some: list[int], others: list[int]) -> None:
    made = Aligned()
    tokens = cut(text.encode(), some)
    made.tokens(*tokens)
    told = [token for piece in cut(text, others) if piece for token in made.shown(piece)]
    assert told == [each for each in tokens if each]
