"""`reasoning.summary`: decides whether reasoning is sent as a summary.

The summary is the reasoning itself, word for word, and stands in place of `content`
(docs/adr/0079-reasoning-as-its-summary.md).
"""

from __future__ import annotations

from antiphon_core.request.options import Reasoning
from antiphon_translator.generation import Level
from antiphon_translator.models.served_model import ServedModel


def has_summary(asked: Reasoning | None, model: ServedModel, level: Level) -> bool:
    """Whether the request wants a summary and the model can give one. For a chat server it is not known whether its
    model reasons, so every model of it may."""
    wants = asked is not None and bool(asked.summary or asked.generate_summary)
    return wants and model.shows_reasoning and (model.reasons or level is Level.CHAT)
