from __future__ import annotations

import pytest

from antiphon_translator.parsing.cursor import Cursor, Malformed
from antiphon_translator.parsing.markup import Markup
from antiphon_translator.parsing.reading import Reading, is_name
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Output, Text, Unread


def test_begin_call_removes_the_mark() -> None:
    reading = Reading(Cursor(), Output())
    reading.cursor.mark()
    reading.begin_call("f", "id")
    assert not reading.cursor.is_marked
    assert reading.out.take() == [CallBegin("f", "id")]


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "<function=f>", "tags.</think", "0", "\ud800", "`f`"])
def test_invalid_call_name_is_malformed(name: str) -> None:
    reading = Reading(Cursor(), Output())
    reading.cursor.mark()
    with pytest.raises(Malformed):
        reading.begin_call(name)
    assert reading.cursor.is_marked
    assert reading.out.take() == []


def test_unusual_tool_names_are_accepted() -> None:
    assert all(map(is_name, ("f", "get-weather", "server.tool", "名前", "a/b:c")))
    assert Reading(Cursor(), Output(), {"0": {}}).can_call("0")


def test_with_offered_tools_only_other_names_are_no_calls() -> None:
    reading = Reading(Cursor(), Output(), {"f": {}}, takes_offered_only=True)
    assert reading.can_call("f")
    assert not reading.can_call("g")


def test_noise_before_a_call_is_noted_when_the_call_is_committed() -> None:
    reading = Reading(Cursor(), Output(), noise=["what"])
    reading.commit()
    assert reading.out.take() == [Unread("noise", 4)]


def test_unread_text_with_a_name_is_shown_as_an_incomplete_call() -> None:
    reading = Reading(Cursor(), Output(), {"f": {}})
    reading.note_name("other", is_certain=False)
    reading.note_name("f", is_certain=False)
    reading.show_unread("<c>f!")
    assert reading.out.take() == [CallBegin("f"), Arguments("<c>f!"), Unread("call", 5), CallEnd(False)]


def test_unread_text_without_a_name_is_shown_without_the_markup_around_it() -> None:
    reading = Reading(Cursor(), Output(), markup=Markup(("<c>",), ()))
    reading.show_unread("<c>\nwords <c> here\n<c>")
    reading.show_unread("<c> <c>")
    assert reading.out.take() == [Text("words <c> here"), Unread("text", 22), Unread("markers", 7)]
