from __future__ import annotations

import pytest

from antiphon_translator.parsing.cursor import Cursor, Reader, discard
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.mention import is_mention, is_mentioned, is_quoted, may_be_mention


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("the `", "` tag"),
        ('say "', '".'),
        ("the (", ") tag"),
        ("“", "”"),
        ("the **", "** tag"),
        ("'", "'"),
        ("`a ", " b`"),
        ('{"a": "b', '"}'),
        ("the ", " tag"),
        ("both, ", ", and"),
        ("of ", "."),
    ],
)
def test_marker_in_quotes_or_within_a_sentence_is_a_mention(before: str, behind: str) -> None:
    assert may_be_mention(before)
    assert is_mention(before, behind[:2])


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        *(("", ""), ("Done. ", " Hi"), ("word", " Hi"), ("`code`", "`more`"), ("a\n", " b"), ("a ", "b")),
        *(("`a`\n", "`b"), ("```", ""), ("```", "\n"), ("so `x", ""), ('27"', ""), ("the ", "")),
        *(("**Yes**", "**No**"), ("'Yes'", "'No'")),
    ],
)
def test_marker_outside_quotes_is_no_mention(before: str, behind: str) -> None:
    assert not is_mention(before, behind[:2])


def test_marker_is_quoted_only_directly_between_quotes() -> None:
    assert is_quoted("`", "` ")
    assert not is_quoted("`a ", "` ")
    assert not is_quoted("the ", " tag")


@pytest.mark.parametrize("strictly", [False, True])
def test_reader_waits_for_the_next_character_only_after_a_space(strictly: bool) -> None:
    for text, waits in (("so <a>", True), ("so.<a>", False)):
        cursor, found = Cursor(), list[bool]()

        def read(cursor: Cursor = cursor, found: list[bool] = found) -> Reader[None]:
            yield from cursor.until(Markers(("<a>",)), discard)
            found.append((yield from is_mentioned(cursor, "<a>", strictly=strictly)))

        steps = read()
        cursor.feed(text)
        assert cursor.step(steps) is not waits
        cursor.feed(" on")
        assert not waits or cursor.step(steps)
        assert found == [waits and not strictly]
