from __future__ import annotations

import pytest

from antiphon_translator.output.search_call import SearchCall


@pytest.mark.parametrize(
    ("pieces", "query"),
    [
        (['{"que', 'ry": " tea "}'], "tea"),
        (['{"queries": ["tea", "cake"]}'], "tea"),
        (['{"query": 1}'], ""),
        (['{"queries": [2]}'], ""),
        (["[1"], ""),
        (["x" * 10**7], ""),
    ],
)
def test_item_has_the_query_that_can_be_read(pieces: list[str], query: str) -> None:
    search = SearchCall({"parallel_with": "ws_1"})
    for piece in pieces:
        search.add(piece)
    item = search.item()
    assert (item["type"], item["status"], item["parallel_with"]) == ("web_search_call", "in_progress", "ws_1")
    assert item["action"] == {"type": "search", "query": query, "queries": [query] if query else []}
