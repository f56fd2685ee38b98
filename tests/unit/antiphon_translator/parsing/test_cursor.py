from __future__ import annotations

from antiphon_translator.parsing.cursor import SPACES_LOOKED_BEHIND, Cursor, Markers, Reader


def run(reader: Reader[object], cursor: Cursor, *pieces: str) -> object:
    """Feeds a reader; what it returned, or None if it still waits."""
    for piece in (*pieces, None):
        if piece is None:
            cursor.finish()
        else:
            cursor.feed(piece)
        try:
            next(reader)
        except StopIteration as ended:
            return ended.value
    raise AssertionError("a reader waits although the text has ended")


def test_until_passes_on_what_cannot_be_a_marker_and_holds_back_what_can() -> None:
    cursor, passed = Cursor(), list[str]()
    reader = cursor.until(Markers(("<end>",)), passed.append)
    cursor.feed("text <e")
    next(reader)
    assert passed == ["text "]
    assert run(reader, cursor, "x <end> rest") == "<end>"
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
    assert passed == ["a", "b"]


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


def test_what_was_read_since_a_mark_is_kept_across_pieces() -> None:
    cursor = Cursor()
    cursor.mark()
    run(cursor.spaces(), cursor, "  ", " ", "\nword")
    assert cursor.is_marked
    assert cursor.unmark() == "   \n"
    assert not cursor.is_marked
    assert cursor.unmark() == ""


def test_the_buffer_holds_only_what_was_not_read() -> None:
    """Otherwise each piece would cost as much as all before it."""
    cursor = Cursor()
    cursor.mark()
    reader = cursor.json_value(list[str]().append)
    cursor.feed('"')
    next(reader)
    for _ in range(100):
        cursor.feed("word")
        next(reader)
        assert len(cursor._text) <= len("word")
    assert cursor.unmark() == '"' + "word" * 100
