from __future__ import annotations

import pytest

from antiphon_translator.parsing.cursor import Cursor, Malformed
from antiphon_translator.parsing.kinds.tagged_value import NextTags, ValueEnds, WithoutNewlines
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading
from antiphon_translator.parsing.segments import Output


def value(ends: ValueEnds, text: str) -> tuple[str, str]:
    """The value at the beginning of a text, and the rest of the text."""
    cursor, parts, rest = Cursor(), list[str](), list[str]()
    cursor.feed(text)
    cursor.finish()
    for reader in (ends.read(Reading(cursor, Output()), parts.append), cursor.until(Markers(()), rest.append)):
        assert list(reader) == []  # the reader never waits, because the text has ended
    return "".join(parts), "".join(rest)


def test_closer_ends_a_value_only_before_a_follower() -> None:
    ends = ValueEnds(("</v>",), followers=("<v>",))
    assert value(ends, "a</v> b</v>\n<v>") == ("a</v> b", "\n<v>")
    assert value(ValueEnds(("</v>",)), "a</v> b</v>") == ("a", " b</v>")
    assert value(ends, "a</v>") == ("a", "")


def test_other_end_of_a_value_is_not_consumed() -> None:
    ends = ValueEnds(("</v>",), ends=("</c>",), beginnings=("<c>",))
    assert value(ends, "a</c> b</c>\n<c>") == ("a</c> b", "</c>\n<c>")


def test_a_value_without_end_is_malformed() -> None:
    with pytest.raises(Malformed):
        value(ValueEnds(("</v>",)), "a")


@pytest.mark.parametrize(
    ("opener", "end", "text", "split"),
    [
        ("\n<k>", "<", "a\n<k>b</k>", ("a", "<k>b</k>")),
        ("\n<k ", ">", "a\n<k b>", ("a", "<k b>")),
        ("\n<k ", ">", "a\n<k 'b'>", ("a", "<k 'b'>")),
        ('\n<k "', '"', 'a\n<k "b">', ("a", '<k "b">')),
        ("<k>", "<", "a<k>b</k>", ("a", "<k>b</k>")),
        ("\n<k>", "<", "a\n<k>given</k>\n</v>", ("a\n<k>given</k>\n", "")),
        ("\n<", ">", "a\n<p>x\n</v><b>", ("a\n<p>x\n", "<b>")),
    ],
)
def test_tag_of_a_missing_parameter_ends_a_value_without_a_closer(
    opener: str, end: str, text: str, split: tuple[str, str]
) -> None:
    tags = NextTags((opener,), (end,), {"b", "c"})
    assert value(ValueEnds(("</v>",), tags=tags), text) == split


def test_literals_of_next_tags_are_as_many_for_any_number_of_parameters() -> None:
    """With literals for each name, a call with 800 parameters took 75 s."""
    assert NextTags(("\n<k>",), ("<",), set(map(str, range(800)))).openers == ("\n<k>",)
    assert NextTags(("\n<k>",), ("<",), set()).openers == ()


def test_one_newline_on_each_side_is_removed() -> None:
    for pieces in (["\n\na\nb\n\n"], list("\n\na\nb\n\n")):
        parts: list[str] = []
        emit = WithoutNewlines(parts.append)
        for piece in pieces:
            emit(piece)
        assert "".join(parts) == "\na\nb\n"
