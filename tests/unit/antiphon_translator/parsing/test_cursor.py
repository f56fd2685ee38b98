from __future__ import annotations

import pytest

from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing.cursor import (
    LOOKED_BEHIND_CHARS,
    READ_CHARS_KEPT,
    SPACES_LOOKED_BEHIND,
    Cursor,
    Malformed,
    Reader,
    discard,
)
from antiphon_translator.parsing.markers import Markers


def run(reader: Reader[object], cursor: Cursor, *pieces: str) -> object:
    """Feeds a reader; what it returned."""
    returned: list[object] = []

    def kept() -> Reader[None]:
        returned.append((yield from reader))

    steps = kept()
    for piece in pieces:
        cursor.feed(piece)
        if cursor.step(steps):
            return returned[0]
    cursor.finish()
    assert cursor.step(steps), "a reader waits although the text has ended"
    return returned[0]


def test_until_passes_on_what_cannot_be_a_marker_and_holds_back_what_can() -> None:
    cursor, passed = Cursor(), list[str]()
    reader = cursor.until(Markers(("<end>",)), passed.append)
    cursor.feed("text <e")
    assert not cursor.step(reader)
    assert passed == ["text "]
    cursor.feed("x <end> rest")
    assert cursor.step(reader)
    assert "".join(passed) == "text <ex "


def test_of_two_markers_at_one_place_the_longer_counts_even_when_it_comes_later() -> None:
    cursor = Cursor()
    assert run(cursor.until(Markers(("<a>", "<a>b")), list[str]().append), cursor, "<a>", "b") == "<a>b"
    cursor = Cursor()
    assert run(cursor.until(Markers(("<a>", "<a>b")), list[str]().append), cursor, "<a>", "c") == "<a>"


def test_a_marker_within_the_beginning_of_a_longer_one_waits_for_it() -> None:
    markers = Markers((">", "[x>y]"))
    cursor = Cursor()
    assert run(cursor.until(markers, list[str]().append), cursor, "[x>", "y]") == "[x>y]"
    cursor, passed = Cursor(), list[str]()
    assert run(cursor.until(markers, passed.append), cursor, "[x>", "z") == ">"
    assert passed == ["[x"]


def test_no_markers_at_all_pass_everything_on() -> None:
    cursor, passed = Cursor(), list[str]()
    assert run(cursor.until(Markers(()), passed.append), cursor, "a", "b") is None
    assert "".join(passed) == "ab"


def test_literals_are_read_whole_or_not_at_all() -> None:
    cursor = Cursor()
    assert run(cursor.literal("word"), cursor, "wo", "rd!") is True
    assert run(cursor.peek(), cursor) == "!"
    cursor = Cursor()
    assert run(cursor.one_of(("wax", "wo")), cursor, "w", "ord") == "wo"
    cursor = Cursor()
    assert run(cursor.literal("word"), cursor, "wo") is False
    assert run(cursor.take(9), cursor) == "wo"


def test_a_value_ends_where_its_brackets_close() -> None:
    cursor, passed = Cursor(), list[str]()
    assert run(cursor.json_value(passed.append), cursor, ' {"a": "}', '\\"]"} tail') is True
    assert "".join(passed) == '{"a": "}\\"]"}'
    cursor = Cursor()
    assert run(cursor.json_value(list[str]().append), cursor, '{"a": ') is False
    cursor = Cursor()
    assert run(cursor.json_value(list[str]().append), cursor, "") is False


def test_what_comes_next_is_seen_behind_some_white_space() -> None:
    cursor = Cursor()
    assert run(cursor.comes_next(("<a>",)), cursor, "  ", "\n<", "a>") is True
    assert run(cursor.peek(), cursor) == " "
    cursor = Cursor()
    assert run(cursor.comes_next(("<a>",)), cursor, " <b>") is False
    cursor = Cursor()
    assert run(cursor.comes_next(("<a>",)), cursor, " ") is True
    cursor = Cursor()
    assert run(cursor.comes_next(("<a>",)), cursor, " " * (SPACES_LOOKED_BEHIND + 1) + "<a>") is False


def test_what_was_read_since_a_mark_can_be_read_again() -> None:
    cursor = Cursor()
    cursor.feed("x")
    assert run(cursor.take(1), cursor) == "x"
    cursor = Cursor()
    cursor.mark()
    run(cursor.spaces(), cursor, "  ", " ", "\nword")
    assert cursor.is_marked
    cursor.rewind()
    cursor.unmark()
    assert not cursor.is_marked
    assert run(cursor.take(8), cursor) == "   \nword"


@pytest.mark.parametrize("pieces", [["a" * GIVE_BACK_CHARS_MAX, "b"], ["a"] * GIVE_BACK_CHARS_MAX + ["b", "<end>"]])
def test_a_reader_cannot_go_far_behind_a_mark(pieces: list[str]) -> None:
    cursor = Cursor()
    cursor.mark()
    with pytest.raises(Malformed):
        run(cursor.until(Markers(("<end>",)), discard), cursor, *pieces)
        cursor.unmark()
    cursor.rewind()
    cursor.unmark()
    assert run(cursor.take(1), cursor) == "a"


def test_the_text_before_a_marker_is_there() -> None:
    cursor = Cursor()
    assert run(cursor.until(Markers(("<a>",)), discard), cursor, "x" * 2000, "yz<", "a>") == "<a>"
    assert cursor.behind("<a>") == ("x" * 2000 + "yz")[-LOOKED_BEHIND_CHARS:]
    assert cursor.position == 2005


def test_the_buffer_holds_little_of_what_was_read() -> None:
    """Otherwise each piece would cost as much as all before it."""
    cursor = Cursor()
    reader = cursor.json_value(discard)
    cursor.feed('"')
    cursor.step(reader)
    for _ in range(1000):
        cursor.feed("word")
        cursor.step(reader)
        assert len(cursor._text) <= LOOKED_BEHIND_CHARS + READ_CHARS_KEPT + 2 * len("word")
