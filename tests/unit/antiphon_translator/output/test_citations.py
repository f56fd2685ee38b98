from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from antiphon_core.jsons import Object
from antiphon_translator.output import citations

RESULTS = [{"number": number, "url": f"https://example.com/{number}", "title": f"T{number}"} for number in (1, 2)]
SEARCH: Object = {"type": "web_search_call", "results": RESULTS}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("As [1] says.", ["[1]"]),
        ("Both [1][2], and 【2†source】 again.", ["[1]", "[2]", "【2†source】"]),
        ("Tëa 🫖 [2]", ["[2]"]),
        ("【1†open, and 【2†source】", ["【2†source】"]),
        ("Not [3], [0] or a[12345], and (1).", []),
    ],
)
def test_markers_of_results_become_citations_with_their_places(text: str, found: list[str]) -> None:
    cite = citations.of_output([SEARCH])
    assert cite is not None
    made = cite(text)
    assert [text[each["start_index"] : each["end_index"]] for each in made] == found
    assert all(each["type"] == "url_citation" for each in made)


class CountedMarkers:
    """The pattern of markers, which counts those that it has found."""

    def __init__(self) -> None:
        self.count, self._pattern = 0, citations._MARKER

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        for marker in self._pattern.finditer(text):
            self.count += 1
            yield marker


@pytest.mark.parametrize(
    ("marker", "cited", "looked_at"),
    [
        ("[1]", citations.CITATIONS_MAX, citations.CITATIONS_MAX),
        ("[3]", 0, citations.MARKERS_MAX),
        ("[3][1]", citations.CITATIONS_MAX, 2 * citations.CITATIONS_MAX),
    ],
)
def test_search_ends_behind_the_last_citation_or_marker_that_counts(
    monkeypatch: pytest.MonkeyPatch, marker: str, cited: int, looked_at: int
) -> None:
    markers = CountedMarkers()
    monkeypatch.setattr(citations, "_MARKER", markers)
    cite = citations.of_output([SEARCH])
    assert cite is not None
    assert (len(cite(marker * 10_000)), markers.count) == (cited, looked_at)


@pytest.mark.parametrize(
    "output", [[], [{"type": "message"}], [SEARCH | {"results": []}], [{"type": "web_search_call"}]]
)
def test_response_without_results_cites_nothing(output: list[Object]) -> None:
    assert citations.of_output(output) is None
