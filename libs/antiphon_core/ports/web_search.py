"""The port of web search. The service of tools implements it, by the provider that its operator chose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from antiphon_core.ports.checks import Tenant, count_within, fitting, utf8_length, within

SEARCH_HITS_MAX = 20

Text = Annotated[str, fitting(lambda text: 0 < utf8_length(text) <= 2_000, "1 to 2000 bytes of text")]
Domains = Annotated[tuple[str, ...], count_within(0, 100)]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """One search of the web. `domains` include their subdomains; none means all. `country` is a code of two letters."""

    text: Text
    count: Annotated[int, within(1, SEARCH_HITS_MAX)] = 5
    domains: Domains = ()
    country: Annotated[str, fitting(lambda text: len(text) in (0, 2), "two letters")] = ""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result of a search. `date` is as the provider writes it."""

    url: str
    title: str
    text: str
    date: str = ""


class WebSearch(Protocol):
    async def search(self, tenant: Tenant, query: SearchQuery, *, timeout_s: float = 30.0) -> tuple[SearchHit, ...]:
        """Searches the web. Repeatable. InvalidRequest: no search is configured here. ToolServerFault: it failed."""
