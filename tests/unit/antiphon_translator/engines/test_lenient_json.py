from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.engines.lenient_json import Halves, values_in, without_surrogates


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b'{"a":1}', [{"a": 1}]),
        (b'{"a":1}{"a":2}', [{"a": 1}, {"a": 2}]),
        (b'{"a":1} \n data: {"a":2}\n', [{"a": 1}, {"a": 2}]),
        (b'{"a":1},{"a":-Infinity}', [{"a": 1}, {"a": float("-inf")}]),
        (b'{"a":"\\ud83d"}', [{"a": "\ud83d"}]),
        (b'{"a":"\xff"}', [{"a": "�"}]),
    ],
)
def test_values_are_read_one_behind_the_other(data: bytes, values: list[object]) -> None:
    assert list(values_in(data)) == values


def test_numbers_that_are_none_are_read() -> None:
    (value,) = values_in(b"[NaN]")
    assert isinstance(value, list)
    assert isnan(value[0])


@pytest.mark.parametrize("data", [b"{", b"hm", b'{"a":1}{', b"[" * 100_000])
def test_rest_that_is_no_json_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(values_in(data))


@given(st.text(st.characters(max_codepoint=0x1F6FF), max_size=6), st.data())
def test_characters_cut_into_halves_are_joined(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    cut = 2 * data.draw(st.integers(0, len(units) // 2))
    pieces = [units[:cut].decode("utf-16-le", "surrogatepass"), units[cut:].decode("utf-16-le", "surrogatepass")]
    halves = Halves()
    joined = halves.feed(pieces[0]) + halves.feed(pieces[1]) + halves.feed("", is_last=True)
    assert joined == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_lone_halves_become_replacement_characters() -> None:
    assert without_surrogates("a\ud83d\ude00b\ud83d") == "a😀b�"
    halves = Halves()
    assert [halves.feed("a\ud83d"), halves.feed("b"), halves.feed("\ude00")] == ["a", "�b", "�"]
