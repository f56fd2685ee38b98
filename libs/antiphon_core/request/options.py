"""Small objects among the parameters of a request."""

from __future__ import annotations

from typing import Literal

from antiphon_core.request.context import Effort
from antiphon_core.request.models import Exact

_Summary = Literal["auto", "concise", "detailed"]


class Reasoning(Exact):
    """How the model is to reason, and how its reasoning is returned."""

    effort: Effort | None = None
    """How much the model is to reason, if its chat template supports this."""
    summary: _Summary | None = None
    """Whether to return the reasoning as `summary` instead of `content`. The summary is the whole reasoning for every
    value; the response says `detailed`, or null if the model gives no reasoning."""
    generate_summary: _Summary | None = None
    """The older name of `summary`."""
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    """A hint without effect: the chat template decides which earlier reasoning the model reads. Not repeated in the
    response."""
    mode: Literal["standard", "pro"] | None = None
    """`pro` is not supported: rejected."""


class StreamOptions(Exact):
    include_obfuscation: bool | None = None
    """Accepted without effect: obfuscation is never added."""


class BackgroundOptions(Exact):
    """Options of the queue, which runs requests in the order in which they came."""

    completion_window: Literal["soonest", "2h", "8h"] | None = None
    """`soonest` is the only supported value; the others are rejected."""
    continuation_id: str | None = None
    """Not supported: rejected."""


class ImageOptions(Exact):
    context_compression: Literal["auto", "enabled", "disabled"] | None = None
    """`enabled` is not supported: rejected. The model sees images unchanged."""


ServiceTier = Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"]
"""All values are accepted without effect."""
