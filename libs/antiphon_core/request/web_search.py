"""The tool `web_search`: declarations and choices of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon_core.request.hosted_tools import WebSearchName
from antiphon_core.request.lengths import AtMost
from antiphon_core.request.models import Open

HITS = {"low": 3, "medium": 5, "high": 10}
"""The results of one search, by `search_context_size`."""


class SearchFilters(Open):
    allowed_domains: Annotated[list[Annotated[str, Field(min_length=1, max_length=253)]], AtMost(100)] | None = None
    """Domains whose pages may be found, with their subdomains; the default is all."""


class UserLocation(Open):
    type: Literal["approximate"] | None = None
    country: Annotated[str, Field(pattern="^[A-Za-z]{2}$")] | None = None
    """The country of the user, as two letters. The search prefers it, if its provider can."""


class WebSearchTool(Open):
    """A search of the web, which this server runs by the provider of its operator."""

    type: WebSearchName
    filters: SearchFilters | None = None
    search_context_size: Literal["low", "medium", "high"] | None = None
    """The number of results of a search: 3, 5 (the default) or 10."""
    user_location: UserLocation | None = None
    """Where the user is; only the country has an effect."""
    external_web_access: bool | None = None
    """No effect: the provider decides what it has."""

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple((self.filters.allowed_domains if self.filters is not None else None) or ())

    @property
    def country(self) -> str:
        return (self.user_location.country if self.user_location is not None else None) or ""

    @property
    def hits(self) -> int:
        return HITS[self.search_context_size or "medium"]


class SearchChoice(Open):
    """Forces a search of the web."""

    type: WebSearchName
