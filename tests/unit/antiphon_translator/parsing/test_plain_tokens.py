from __future__ import annotations

import pytest

from antiphon_translator.parsing import plain_tokens
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.plain_tokens import PlainTokens

CONTROL = chr(0xD800)
MARKERS = Markers(("<call>", "[TOOL", CONTROL))
TEXTS = ["word", " word", "naïve ☃", "a <b", "x[", "ends ", "ends\n", "\u00a0", "\x1c", "\ufffd", "", CONTROL, ">"]


def table() -> PlainTokens:
    return PlainTokens(TEXTS.__getitem__, MARKERS)


@pytest.mark.parametrize("text", ["word", " word", "naïve ☃", ">"])
def test_token_of_whole_characters_without_the_beginning_of_a_marker_is_plain(text: str) -> None:
    assert table()[TEXTS.index(text)] == text


@pytest.mark.parametrize("text", ["a <b", "x[", "ends ", "ends\n", "\u00a0", "\x1c", "\ufffd", "", CONTROL])
def test_marker_characters_white_space_at_the_end_and_parts_of_characters_are_not_plain(text: str) -> None:
    assert table()[TEXTS.index(text)] == ""


def test_token_is_looked_up_once() -> None:
    asked: list[int] = []

    def text_within(token_id: int) -> str:
        asked.append(token_id)
        return "word"

    made = PlainTokens(text_within, MARKERS)
    assert [made[7], made[7], made[8]] == ["word", "word", "word"]
    assert asked == [7, 8]


def test_full_table_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_tokens, "IDS_MAX", 3)
    made = PlainTokens(lambda token_id: f"t{token_id}", MARKERS)
    assert [made[each] for each in (1, 2, 3, 4)] == ["t1", "t2", "t3", "t4"]
    assert list(made) == [4]
