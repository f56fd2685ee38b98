from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_translator.schemas import pattern_cost


@pytest.mark.parametrize(
    ("pattern", "cost"),
    [
        ("", 0),
        ("abc", 3),
        ("a{900}", 900),
        ("a{2,900}", 900),
        ("a{2,}", 3),
        ("a{0}", 1),
        (".{900}", 13 * 900),
        ("[a-z]{9}", 9),
        ("[^a]{9}", 13 * 9),
        ("[à-ž]{9}", 13 * 9),
        ("(?:(a{10}){10}){9}", 900),
        ("(.{30}b){30}", (13 * 30 + 1) * 30),
        (r"\s", 13 + 3),
        (r"\s" * 400, 13 * 400 + 3 * 400**2),
        (r"\.\n", 2),
    ],
)
def test_repetitions_are_written_out_and_shorthands_counted_in_pairs(pattern: str, cost: int) -> None:
    assert pattern_cost.of(pattern) == cost


@given(st.text(alphabet="a.(){}[]^\\,1?9sé|", max_size=100))
def test_whatever_a_pattern_holds_it_has_a_cost(pattern: str) -> None:
    assert pattern_cost.of(pattern) >= 0
    assert pattern_cost.of(pattern + "a") > 0
