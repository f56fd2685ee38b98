"""A search of the web that the model asked for: the query, and the item with its results."""

from __future__ import annotations

from antiphon_core.errors import AntiphonError
from antiphon_core.jsons import Object
from antiphon_core.ports.web_search import SearchQuery, WebSearch
from antiphon_core.request.web_search import WebSearchTool
from antiphon_edge.tools import call_ends

SEARCH_S = 30.0
QUERY_BYTES_MAX = 2_000


async def run_search(
    web: WebSearch, tenant: str, asked: WebSearchTool | None, item: Object, *, timeout_s: float
) -> Object:
    """Runs the search of an item by its declaration `asked`, and returns the item with its results. A search that fails
    has none, and says why."""
    text = item["action"]["query"]
    if asked is None or not text:
        return call_ends.failed_search(item, "The call has no query.")
    short = text.encode()[:QUERY_BYTES_MAX].decode(errors="ignore")
    query = SearchQuery(short, asked.hits, asked.domains, asked.country)
    try:
        hits = await web.search(tenant, query, timeout_s=min(timeout_s, SEARCH_S))
    except AntiphonError as error:
        return call_ends.failed_search(item, error.message)
    return call_ends.ended_search(item, hits)
