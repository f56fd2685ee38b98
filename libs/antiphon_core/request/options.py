"""Small objects among the parameters of a request. Several are hints about cost, which an engine's own cache decides;
the response then says what was done (antiphon_core.response)."""

from __future__ import annotations

from typing import Literal

from antiphon_core.request.context import Effort
from antiphon_core.request.models import Exact

_Summary = Literal["auto", "concise", "detailed"]


class Reasoning(Exact):
    """How the model is to think, and how its reasoning is told."""

    effort: Effort | None = None
    """How much the model is to think, as far as its chat template can tell it."""
    summary: _Summary | None = None
    """Whether reasoning is told as a summary, in place of `content`. The summary is the reasoning itself, whichever
    length is asked for; the response says `detailed`, or null where the model gives none."""
    generate_summary: _Summary | None = None
    """The older name of `summary`."""
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    """A hint, as with `auto`: the chat template decides which earlier reasoning the model reads. Not told back."""
    mode: Literal["standard", "pro"] | None = None
    """`pro` is rejected: a model here has one way to run."""


class StreamOptions(Exact):
    include_obfuscation: bool | None = None
    """Accepted: obfuscation is never added, which this leaves open."""


class PromptCacheOptions(Exact):
    """Engines cache every prefix that they have read, for as long as they have room."""

    mode: Literal["implicit", "explicit"] | None = None
    """A hint: engines cache implicitly, and the response says `implicit`."""
    ttl: Literal["30m", "12h"] | None = None
    """Rejected: it is a lifetime that a cache must reach at least, and no engine promises one."""
    prewarm: bool | None = None
    """Over a WebSocket the same as `generate: false`; refused elsewhere."""
    comparison_response_id: str | None = None
    """Accepted: diagnostics come only from servers that have them, and none are told here."""


class BackgroundOptions(Exact):
    """Wishes for the queue, which serves in the order in which requests come."""

    completion_window: Literal["soonest", "2h", "8h"] | None = None
    """`soonest` is what every background response gets; the others are rejected."""
    continuation_id: str | None = None
    """Not served: rejected."""


class ImageOptions(Exact):
    context_compression: Literal["auto", "enabled", "disabled"] | None = None
    """Images are shown as they are: `enabled` is refused."""


ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]
"""All are taken, and none makes a difference."""
