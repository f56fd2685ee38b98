"""Search providers: how each is asked, and how its answer is read. No I/O.

What a provider can do is not relied on: results are filtered by domain and counted again (`select`). SearXNG takes no
number of results, no domains and no country; Tavily names countries in words of its own, so it is not told one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from yarl import URL

from antiphon_core.egress.urls import is_covered
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.web_search import SearchHit, SearchQuery
from antiphon_tools.mcp.cleaning import clean, clean_line

HIT_TEXT_CHARS_MAX = 4_000
URL_CHARS_MAX = 2_048
_TEXTS = ("text", "content", "description", "snippet", "summary")
_DATES = ("published_date", "publishedDate", "date", "page_age", "age")
_BANG = re.compile(r"(^|\s)!+(?=\S)")


@dataclass(frozen=True, slots=True)
class WebRequest:
    """One HTTP request. A body is JSON."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider. `url` is where it is asked unless the operator names another URL; empty: the operator must."""

    url: str
    ask: Callable[[str, str, SearchQuery], WebRequest]
    """Makes the request of a URL, a key and a query."""
    results: Callable[[Object], Any]
    """The list of results in an answer."""
    needs_key: bool = True


def _searxng(url: str, _key: str, query: SearchQuery) -> WebRequest:
    text = _BANG.sub(r"\1", query.text)  # `!g` would be answered with a redirect to another search engine
    return WebRequest("GET", str(URL(url) % {"q": text, "format": "json"}))


def _brave(url: str, key: str, query: SearchQuery) -> WebRequest:
    sites = " OR ".join(f"site:{domain}" for domain in query.domains)
    words = {"q": f"{query.text} ({sites})" if sites else query.text, "count": str(min(query.count, 20))}
    if query.country:
        words["country"] = query.country
    return WebRequest("GET", str(URL(url) % words), {"X-Subscription-Token": key})


def _tavily(url: str, key: str, query: SearchQuery) -> WebRequest:
    asked: Object = {"query": query.text, "max_results": min(query.count, 20)}
    if query.domains:
        asked["include_domains"] = list(query.domains)
    return _post(url, {"Authorization": f"Bearer {key}"}, asked)


def _exa(url: str, key: str, query: SearchQuery) -> WebRequest:
    asked: Object = {"query": query.text, "numResults": query.count, "contents": {"highlights": True}}
    if query.domains:
        asked["includeDomains"] = list(query.domains)
    if query.country:
        asked["userLocation"] = query.country
    return _post(url, {"x-api-key": key}, asked)


def _post(url: str, headers: dict[str, str], asked: Object) -> WebRequest:
    return WebRequest("POST", url, {**headers, "Content-Type": "application/json"}, dumps(asked))


def _plain(answer: Object) -> Any:
    return answer.get("results")


def _of_web(answer: Object) -> Any:
    web = answer.get("web")
    return web.get("results") if isinstance(web, dict) else []  # Brave leaves `web` out if nothing was found


PROVIDERS: dict[str, Provider] = {
    "searxng": Provider("", _searxng, _plain, needs_key=False),
    "brave": Provider("https://api.search.brave.com/res/v1/web/search", _brave, _of_web),
    "tavily": Provider("https://api.tavily.com/search", _tavily, _plain),
    "exa": Provider("https://api.exa.ai/search", _exa, _plain),
}


def select(results: Iterable[Any], query: SearchQuery) -> tuple[SearchHit, ...]:
    """The usable results: of the asked domains, each URL once, and not more than were asked for."""
    hits: dict[str, SearchHit] = {}
    for hit in filter(None, map(_hit, results)):
        if len(hits) < query.count and _has_domain(hit.url, query.domains):
            hits.setdefault(hit.url, hit)
    return tuple(hits.values())


def _hit(result: Any) -> SearchHit | None:
    if not isinstance(result, dict):
        return None
    url = result.get("url", result.get("link"))
    if not isinstance(url, str) or len(url) > URL_CHARS_MAX or not url.startswith(("https://", "http://")):
        return None
    text = " ".join(_texts(result))[:HIT_TEXT_CHARS_MAX]
    return SearchHit(clean_line(url), clean_line(_first(result, ("title",))), text, clean_line(_first(result, _DATES)))


def _texts(result: Object) -> Iterator[str]:
    """The text of a result, and its excerpts."""
    yield clean(_first(result, _TEXTS))
    for name in ("highlights", "extra_snippets"):
        excerpts = result.get(name)
        if isinstance(excerpts, list):
            yield from (clean(each) for each in excerpts if isinstance(each, str))


def _first(result: Object, names: Iterable[str]) -> str:
    return next((result[name] for name in names if isinstance(result.get(name), str)), "")


def _has_domain(url: str, domains: tuple[str, ...]) -> bool:
    if not domains:
        return True
    try:
        host = URL(url).host or ""
    except ValueError:
        return False
    return any(is_covered(host, (domain.lower(), f"*.{domain.lower()}")) for domain in domains)
