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
def test_search_stops_at_a_marker_or_a_possible_beginning_of_one(
    text: str, ended: bool, found: tuple[int, int, str | None]
) -> None:
    assert Markers(("<end>",)).search(text, 0, ended=ended) == found


def test_longest_marker_at_one_position_wins() -> None:
    markers = Markers(("<a>", "<a>b"))
    assert markers.search("<a>", 0, ended=False) == (0, 0, None)
    assert markers.search("<a>b", 0, ended=False) == (0, 4, "<a>b")
    assert markers.search("<a>", 0, ended=True) == (0, 3, "<a>")


def test_marker_before_the_start_is_not_found() -> None:
    assert Markers(("<a>",)).search("<a> <a>", 1, ended=True) == (4, 7, "<a>")


def test_search_without_markers_finds_nothing() -> None:
    assert Markers(()).search("text", 0, ended=False) == (4, 4, None)
