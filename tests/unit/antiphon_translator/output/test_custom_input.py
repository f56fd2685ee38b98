from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.output.custom_input import CustomInput


def unwrapped(*pieces: str) -> str:
    unwrap = CustomInput()
    return "".join(map(unwrap.feed, pieces)) + unwrap.finish()


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, st.booleans(), st.randoms(use_true_random=False))
def test_unwrapped_input_does_not_depend_on_the_pieces(text: str, ascii_only: bool, random: object) -> None:
    written = json.dumps({"input": text}, ensure_ascii=ascii_only)
    cut = random.randint(0, len(written))  # type: ignore[attr-defined]
    assert unwrapped(written) == unwrapped(*written) == unwrapped(written[:cut], written[cut:]) == text


def test_input_is_unwrapped_piece_by_piece() -> None:
    unwrap = CustomInput()
    assert [unwrap.feed(piece) for piece in ('{"inp', 'ut": "a', "b\\", 'nc"', "}")] == ["", "a", "b", "\nc", ""]
    assert unwrap.finish() == ""


@given(texts.filter(lambda text: '"input"' not in text))
def test_input_without_a_wrapper_is_kept(text: str) -> None:
    assert unwrapped(text) == unwrapped(*text) == text


def test_object_without_an_input_member_is_kept() -> None:
    assert unwrapped('{"code": "x"}') == '{"code": "x"}'


def test_input_that_was_cut_off_is_kept() -> None:
    assert unwrapped('{"input": "half') == "half"
    assert unwrapped('{"input": "half\\u00') == "half\\u00"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"a\ud83d", "a\ufffd"),
        (r"\ud83dXY", "\ufffdXY"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\ud83d\u0041", "\ufffdA"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\ude00\"", '\ufffd"'),
    ],
)
def test_a_lone_surrogate_becomes_the_replacement_character(written: str, text: str) -> None:
    whole = f'{{"input": "{written}"}}'
    assert unwrapped(whole) == unwrapped(*whole) == text


def test_cut_off_escape_is_kept_as_written() -> None:
    assert unwrapped('{"input": "a\\u') == "a\\u"


def test_invalid_escape_is_kept_as_written() -> None:
    assert unwrapped('{"input": "a\\qb"}') == "a\\qb"
