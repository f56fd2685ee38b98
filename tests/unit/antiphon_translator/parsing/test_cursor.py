from __future__ import annotations

import pytest

from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing.cursor import (
    KEPT_CHARS,
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
    """Feeds the pieces to a reader. Returns the result of the reader."""
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


def test_until_holds_back_only_a_possible_marker() -> None:
    cursor, passed = Cursor(), list[str]()
    reader = cursor.until(Markers(("<end>",)), passed.append)
    cursor.feed("text <e")
    assert not cursor.step(reader)
    assert passed == ["text "]
    cursor.feed("x <end> rest")
    assert cursor.step(reader)
    assert "".join(passed) == "text <ex "


def test_longest_marker_wins_even_when_it_arrives_later() -> None:
    cursor = Cursor()
    assert run(cursor.until(Markers(("<a>", "<a>b")), list[str]().append), cursor, "<a>", "b") == "<a>b"
    cursor = Cursor()
    assert run(cursor.until(Markers(("<a>", "<a>b")), list[str]().append), cursor, "<a>", "c") == "<a>"


def test_marker_inside_a_possible_longer_one_is_held_back() -> None:
    markers = Markers((">", "[x>y]"))
    cursor = Cursor()
    assert run(cursor.until(markers, list[str]().append), cursor, "[x>", "y]") == "[x>y]"
    cursor, passed = Cursor(), list[str]()
    assert run(cursor.until(markers, passed.append), cursor, "[x>", "z") == ">"
    assert passed == ["[x"]


def test_until_without_markers_passes_everything_on() -> None:
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


def test_json_value_ends_with_its_closing_bracket() -> None:
    cursor, passed = Cursor(), list[str]()
    assert run(cursor.json_value(passed.append), cursor, ' {"a": "}', '\\"]"} tail') is True
    assert "".join(passed) == '{"a": "}\\"]"}'
    cursor = Cursor()
    assert run(cursor.json_value(list[str]().append), cursor, '{"a": ') is False
    cursor = Cursor()
    assert run(cursor.json_value(list[str]().append), cursor, "") is False


def test_comes_next_looks_behind_limited_white_space() -> None:
    cursor = Cursor()
    assert run(cursor.comes_next(("<a>",)), cursor, "  ", "\n<", "a>") is True
    assert run(cursor.peek(), cursor) == " "
    cursor = Cursor()
    assert run(cursor.comes_next(("<a>",)), cursor, " <b>") is False
    cursor = Cursor()
    assert run(cursor.comes_next(("<a>",)), cursor, " ") is True
    cursor = Cursor()
    assert run(cursor.comes_next(("<a>",)), cursor, " " * (SPACES_LOOKED_BEHIND + 1) + "<a>") is False


def test_rewind_to_a_mark_reads_the_text_again() -> None:
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
def test_reading_too_far_behind_a_mark_is_malformed(pieces: list[str]) -> None:
    cursor = Cursor()
    cursor.mark()
    with pytest.raises(Malformed):
        run(cursor.until(Markers(("<end>",)), discard), cursor, *pieces)
        cursor.unmark()
    cursor.rewind()
    cursor.unmark()
    assert run(cursor.take(1), cursor) == "a"


def test_text_before_a_marker_is_kept_up_to_a_limit() -> None:
    cursor = Cursor()
    assert run(cursor.until(Markers(("<a>",)), discard), cursor, "x" * 2000, "yz<", "a>") == "<a>"
    assert cursor.behind("<a>") == ("x" * 2000 + "yz")[-LOOKED_BEHIND_CHARS:]
    assert cursor.position == 2005


def test_text_before_a_marker_is_kept_while_the_cursor_waits_behind_it() -> None:
    cursor = Cursor()

    def reader() -> Reader[str]:
        found = yield from cursor.until(Markers(("<a>",)), discard)
        yield from cursor.comes_next(("<b>",))
        return cursor.behind(found or "")

    written = "x" * READ_CHARS_KEPT + "`"
    assert run(reader(), cursor, f"{written}<a>", "<", "c") == written[-LOOKED_BEHIND_CHARS:]


def test_buffer_drops_text_that_was_read() -> None:
    """If the buffer kept all text, reading would take quadratic time."""
    cursor = Cursor()
    reader = cursor.json_value(discard)
    cursor.feed('"')
    cursor.step(reader)
    for _ in range(1000):
        cursor.feed("word")
        cursor.step(reader)
        assert len(cursor._text) <= KEPT_CHARS + READ_CHARS_KEPT + 2 * len("word")


def test_text_behind_a_loosened_mark_is_kept_apart_from_the_buffer() -> None:
    """If the buffer kept it, a call in Python's syntax would take quadratic time."""
    cursor = Cursor()
    cursor.feed('x"')
    cursor.step(cursor.literal("x"))
    cursor.mark()
    cursor.loosen_mark()
    reader = cursor.json_value(discard)
    for _ in range(2 * GIVE_BACK_CHARS_MAX // len("word")):
        cursor.feed("word")
        cursor.step(reader)
    assert len(cursor._text) <= KEPT_CHARS + READ_CHARS_KEPT + 2 * len("word")
    assert not cursor.is_marked
    assert cursor.text_behind_mark == '"' + "word" * (2 * GIVE_BACK_CHARS_MAX // len("word"))


def test_find_ahead_looks_at_limited_text_and_does_not_move() -> None:
    markers = Markers(("<a>", "<b>"))
    cursor = Cursor()
    assert run(cursor.find_ahead(markers), cursor, "text <", "b> <a>") == "<b>"
    assert cursor.position == 0
    cursor = Cursor()
    assert run(cursor.find_ahead(markers), cursor, "x" * GIVE_BACK_CHARS_MAX, "x<a>") is None
    cursor = Cursor()
    assert run(cursor.find_ahead(markers), cursor, "text <") is None


@pytest.mark.parametrize(
    ("text", "is_marked", "is_told"), [("a", False, True), ("a<", False, False), ("a", True, False)]
)
def test_run_is_told_where_all_text_is_read_and_no_reader_may_go_back(
    text: str, is_marked: bool, is_told: bool
) -> None:
    cursor, markers = Cursor(), Markers(("<x>",))
    steps = cursor.until(markers, discard)
    cursor.feed(text)
    if is_marked:
        cursor.mark()
    assert cursor.run is None
    cursor.step(steps)
    assert cursor.run == ((markers, discard) if is_told else None)


def test_no_run_is_told_while_a_reader_waits_for_anything_else() -> None:
    cursor = Cursor()
    steps = cursor.until(Markers(("<x>",)), discard)
    cursor.feed("a")
    cursor.step(steps)
    next(cursor.word())
    assert cursor.run is None


def test_skipped_text_is_before_the_cursor() -> None:
    cursor, written = Cursor(), list[str]()
    steps = cursor.until(Markers(("<x>",)), written.append)
    cursor.feed("a")
    cursor.step(steps)
    cursor.skip(" b c")
    cursor.feed("d<x>")
    assert cursor.step(steps)
    assert (written, cursor.behind("<x>"), cursor.position) == (["a", "d"], "a b cd", len("a b cd<x>"))
