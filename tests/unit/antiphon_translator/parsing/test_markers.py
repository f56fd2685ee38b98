from __future__ import annotations

import pytest

from antiphon_translator.parsing.markers import Markers


@pytest.mark.parametrize(
    ("text", "ended", "found"),
    [
        ("a <end> b", False, (2, 7, "<end>")),
        ("a <en", False, (2, 2, None)),
        ("a <en", True, (5, 5, None)),
        ("a b", False, (3, 3, None)),
        ("<e <end>", False, (3, 8, "<end>")),
    ],
)
def test_what_cannot_be_a_marker_is_passed_and_what_may_become_one_is_not(
    text: str, ended: bool, found: tuple[int, int, str | None]
) -> None:
    assert Markers(("<end>",)).search(text, 0, ended=ended) == found


def test_the_longer_of_two_at_one_place_counts_as_soon_as_it_is_known() -> None:
    markers = Markers(("<a>", "<a>b"))
    assert markers.search("<a>", 0, ended=False) == (0, 0, None)
    assert markers.search("<a>b", 0, ended=False) == (0, 4, "<a>b")
    assert markers.search("<a>", 0, ended=True) == (0, 3, "<a>")


def test_nothing_before_the_start_counts() -> None:
    assert Markers(("<a>",)).search("<a> <a>", 1, ended=True) == (4, 7, "<a>")


def test_no_markers_are_never_found() -> None:
    assert Markers(()).search("text", 0, ended=False) == (4, 4, None)
