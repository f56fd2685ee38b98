"""The limits of a response that calls tools of servers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """The defaults are those of the settings `tool_*` of edges and workers."""

    rounds: int = 32
    calls: int = 128
    parallel: int = 4
    time_s: float = 600.0
    """From the beginning of the response, or from its takeover by another process."""
    finish_s: float = 10.0
    """How long calls that were sent are awaited after their client has left."""


DEFAULT_LIMITS = ToolLimits()
