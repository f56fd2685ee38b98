"""Small objects among the parameters of a request, most of which change nothing here: what they ask for is so anyway,
or is an engine's own affair."""

from __future__ import annotations

from typing import Literal

from antiphon_core.request.context import Effort
from antiphon_core.request.models import Exact

_Summary = Literal["auto", "concise", "detailed"]


class Reasoning(Exact):
    """`effort` and `summary` change something; the others are echoed."""

    effort: Effort | None = None
    """How much the model is to think, as far as its chat template can tell it."""
    summary: _Summary | None = None
    """Whether reasoning is told as a summary, in place of `content`. The summary is the reasoning itself, whichever
    length is asked for; the response says `detailed`, or null where the model gives none."""
    generate_summary: _Summary | None = None
    """The older name of `summary`."""
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    """Echoed."""
    mode: Literal["standard", "pro"] | None = None
    """Echoed."""


class StreamOptions(Exact):
    include_obfuscation: bool | None = None
    """Accepted: obfuscation is never added, which this leaves open."""


class PromptCacheOptions(Exact):
    """Wishes about an engine's prompt cache. Engines decide by themselves what they cache."""

    mode: Literal["implicit", "explicit"] | None = None
    """Echoed."""
    ttl: Literal["30m", "12h"] | None = None
    """Echoed."""
    prewarm: bool | None = None
    """Over a WebSocket the same as `generate: false`; refused elsewhere."""
    comparison_response_id: str | None = None
    """Echoed: nothing is diagnosed."""


class ImageOptions(Exact):
    context_compression: Literal["auto", "enabled", "disabled"] | None = None
    """Images are shown as they are: `enabled` is refused."""


ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]
"""All are taken, and none makes a difference."""
