from __future__ import annotations

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
        ("Not [3], [0] or a[12345], and (1).", []),
    ],
)
def test_markers_of_results_become_citations_with_their_places(text: str, found: list[str]) -> None:
    cite = citations.of_output([SEARCH])
    assert cite is not None
    made = cite(text)
    assert [text[each["start_index"] : each["end_index"]] for each in made] == found
    assert all(each["type"] == "url_citation" for each in made)


def test_number_of_citations_is_bounded() -> None:
    cite = citations.of_output([SEARCH])
    assert cite is not None
    assert len(cite("[1]" * 1_000)) == citations.CITATIONS_MAX


@pytest.mark.parametrize(
    "output", [[], [{"type": "message"}], [SEARCH | {"results": []}], [{"type": "web_search_call"}]]
)
def test_response_without_results_cites_nothing(output: list[Object]) -> None:
    assert citations.of_output(output) is None
