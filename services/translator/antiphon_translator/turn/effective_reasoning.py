"""The options of reasoning that are in effect, and how the response repeats them.

The summary of reasoning is the reasoning itself, word for word, and stands in place of `content`
(docs/adr/0079-reasoning-as-its-summary.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon_core.jsons import Object
from antiphon_core.request.options import Reasoning
from antiphon_translator.generation import Level
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.templates import switches

VERBATIM = "detailed"
"""The value of `reasoning.summary` for a summary that leaves nothing out."""


def has_summary(asked: Reasoning, model: ServedModel, level: Level) -> bool:
    """Whether the request wants a summary and the model can give one. For a chat server it is not known whether its
    model reasons, so every model of it may."""
    wants = bool(asked.summary or asked.generate_summary)
    return wants and model.shows_reasoning and (model.can_reason or level is Level.CHAT)


def reasoning_in_effect(asked: Object, chosen: Mapping[str, Any] | None, *, has_summary: bool) -> Object:
    """The member `reasoning` of the response, as an object of its own; empty if the values in effect are those of the
    request. `chosen`: the switches of the chat template; None if its server takes none, so that the effort is the
    server's default."""
    given = asked.get("reasoning") or {}
    changed: Object = {}
    if given.get("effort") is not None:
        changed["effort"] = switches.echoed_effort(given["effort"], chosen) if chosen is not None else None
    if given.get("summary") or given.get("generate_summary"):
        changed["summary"] = VERBATIM if has_summary else None
    rest = {name: value for name, value in given.items() if name != "generate_summary"}
    return {"reasoning": rest | changed} if rest | changed != given else {}
