"""Translates `reasoning.effort` into the switches of a chat template.

Templates turn reasoning on and off by variables of their own; the variables that a template reads are known. With a
template that reads none the effort has no effect, but `none` is rejected if the model reasons.

A level is passed on to a template that names it, and otherwise replaced by the next lower level that all templates
with levels know; `minimal` by `low`. The response echoes the level that the template gets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from antiphon_core.errors import InvalidRequest

NONE = "none"

_ON_AND_OFF = ("enable_thinking", "thinking")
_LEVEL = "reasoning_effort"

# All templates with levels know low, medium and high. DeepSeek V4 has `max`, too.
_SUBSTITUTES: Mapping[str, Sequence[str]] = {"minimal": ["low"], "xhigh": ["high"], "max": ["xhigh", "high"]}


def of_effort(
    effort: str | None, variables: Collection[str], *, reasons: bool, literals: Collection[str] = ()
) -> dict[str, Any]:
    """The switches for an effort; empty if the request has none. `reasons`: the model may reason. `literals`: the texts
    in the template's source, which name the levels that it knows.

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
        switches[_LEVEL] = _known_level(effort, literals)
    return switches


def echoed_effort(asked: str | None, switches: Mapping[str, Any]) -> str | None:
    """The effort that the response echoes: the level that the template gets, if it gets one."""
    level: str | None = switches.get(_LEVEL, asked)
    return level


def _known_level(effort: str, literals: Collection[str]) -> str:
    substitutes = _SUBSTITUTES.get(effort, ())
    levels = (effort, *substitutes)
    return next((level for level in levels if level in literals), levels[-1])
