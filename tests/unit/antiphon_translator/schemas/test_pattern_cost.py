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
def test_pattern_cost_counts_expanded_repetitions_and_pairs_of_shorthands(pattern: str, cost: int) -> None:
    assert pattern_cost.of(pattern) == cost


@given(st.text(alphabet="a.(){}[]^\\,1?9sé|", max_size=100))
def test_pattern_cost_of_any_text_is_a_number(pattern: str) -> None:
    assert pattern_cost.of(pattern) >= 0
    assert pattern_cost.of(pattern + "a") > 0
