from __future__ import annotations

import pytest

from antiphon_translator.parsing.markup import Markup

MARKUP = Markup(("<c>", "</c>", "<c> <s>"), (">", "<k"))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<c>a</c>", ("<c>", "a", "</c>")),
        (" <c> <s>\na > b <c> c\n</c> </c>\n", (" <c> <s>\n", "a > b <c> c", "\n</c> </c>\n")),
        ("a", ("", "a", "")),
        ("<c></c>", ("<c></c>", "", "")),
    ],
)
def test_markup_around_a_text_is_told_from_its_body(text: str, parts: tuple[str, str, str]) -> None:
    assert MARKUP.parts(text) == parts


def test_text_of_markup_and_white_space_has_no_words() -> None:
    assert MARKUP.is_all_of("<c> <k> \n</c>")
    assert not MARKUP.is_all_of("<c>{}</c>")
    assert not Markup((), ()).is_all_of("<c>")
