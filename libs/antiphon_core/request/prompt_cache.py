"""Options of prompt caching: what a request says of the lifetime of its prompt in an engine's KV cache.

Engines cache every prefix as long as they have room. A request can ask for a longer or a shorter life of its prompt
(antiphon_translator.turn.cache_retention), and the response says what of it the engine was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from antiphon_core.jsons import Object
from antiphon_core.request.models import Exact

Lifetime = Literal["30m", "12h"]
LIFETIMES_S: Mapping[str, int] = {"30m": 1_800, "12h": 43_200, "24h": 86_400}
"""Seconds of the lifetimes of `prompt_cache_options`, of breakpoints, and of `prompt_cache_retention`."""
LIFETIME_DEFAULT: Lifetime = "30m"
IMPLICIT, EXPLICIT = "implicit", "explicit"


COMPARISON = b"comparison_response_id"
"""Stands in every request that wants to be compared with another response."""


class PromptCacheOptions(Exact):
    """Hints about prompt caching. Engines cache every prefix, as long as they have room."""

    mode: Literal["implicit", "explicit"] | None = None
    """`explicit`: only the prompt up to its last breakpoint is worth keeping. The rest leaves the cache first, where
    the engine takes priorities; elsewhere the response says `implicit`."""
    ttl: Lifetime | None = None
    """The prompt is to stay in the cache for so long. The response repeats the lifetime if the engine was told of it:
    that needs an engine which takes lifetimes, and the tenant's share of the cache (`retained_tokens_per_tenant` of
    the model's profile)."""
    prewarm: bool | None = None
    """The engine reads the prompt, so that the next turn finds it in the cache, and the response has no output. Over a
    WebSocket the same as `generate: false`."""
    comparison_response_id: str | None = None
    """The id of an earlier response. The response then has `prompt_cache_diagnostics`: whether its prompt could use
    what was cached for that one, and why not. A response that ends right behind calls of the server has none.
    `GET /v1/responses/{id}/cache` tells more, of every response."""


class CacheBreakpoint(Exact):
    """The end of a prefix that other requests share. Up to it the prompt is kept for the lifetime, on the conditions of
    `prompt_cache_options.ttl`."""

    mode: Literal["explicit"]
    ttl: Lifetime | None = None
    """The lifetime up to here; by default that of `prompt_cache_options`, or else 30 minutes."""


def options_in_effect(mode: str = IMPLICIT, lifetime: str | None = None, compared_id: str | None = None) -> Object:
    """The `prompt_cache_options` of a response, from what its engine was told. `compared_id` is that of the response
    that it is compared with."""
    compared = {"comparison_response_id": compared_id} if compared_id is not None else {}
    return {"mode": mode} | ({"ttl": lifetime} if lifetime is not None else {}) | compared
