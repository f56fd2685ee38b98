from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.jsons import dumps
from antiphon_translator.parsing.json_scan import JsonScan

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(VALUES, st.integers(1, 5))
def test_scan_ends_with_the_value_in_pieces_of_any_size(value: object, size: int) -> None:
    text = dumps(value).decode()
    scan, at = JsonScan(), 0
    whole = text + ", more"
    for end in [*range(size, len(whole), size), len(whole)]:
        at = scan.feed(whole[:end], at, ended=False)
    assert scan.is_done
    assert whole[:at] == text


@pytest.mark.parametrize("text", ["}", ",", ":", "]", "<"])
def test_invalid_first_character_breaks_the_scan(text: str) -> None:
    scan = JsonScan()
    assert scan.feed(text, 0, ended=False) == 0
    assert scan.is_broken


def test_number_is_complete_only_at_the_end_of_the_text() -> None:
    scan = JsonScan()
    assert scan.feed("12", 0, ended=False) == 2
    assert not scan.is_done
    assert scan.feed("12", 2, ended=True) == 2


def test_configured_quotes_and_brackets_are_scanned() -> None:
    scan = JsonScan(quotes="\"'", brackets="()[]")
    assert scan.feed("[f(')', \"]\")] tail", 0, ended=False) == len("[f(')', \"]\")]")
    assert scan.is_done
