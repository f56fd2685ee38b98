"""Translates `reasoning.effort` into the switches of a chat template.

Templates turn reasoning on and off by variables of their own; the variables that a template reads are known. With a
template that reads none the effort has no effect, but `none` is rejected if the model reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from antiphon_core.errors import InvalidRequest

NONE = "none"

_ON_AND_OFF = ("enable_thinking", "thinking")
_LEVEL = "reasoning_effort"

# The levels that templates know are low, medium and high.
_LEVELS: Mapping[str, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def of_effort(effort: str | None, variables: Collection[str], *, reasons: bool) -> dict[str, Any]:
    """The switches for an effort; empty if the request has none. `reasons`: the model may reason.

    InvalidRequest: the effort is `none`, and the model's reasoning cannot be switched off."""
    if effort is None:
        return {}
    switches: dict[str, Any] = {name: effort != NONE for name in _ON_AND_OFF if name in variables}
    if effort == NONE and reasons and not switches:
        raise InvalidRequest(
            "This model always reasons: 'reasoning.effort' cannot be 'none'.",
            field="reasoning.effort",
            code="unsupported_value",
        )
    if effort != NONE and _LEVEL in variables:
        switches[_LEVEL] = _LEVELS[effort]
    return switches
