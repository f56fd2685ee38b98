"""Parameters and items for the compaction of the context, and for changes of settings within a conversation.

With `context_management` a long context is compacted before the response; a `compaction_trigger` item requests a
compaction in any case, and a `compaction` item is the result. A `configuration_update` item changes settings for all
items after it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon_core import limits
from antiphon_core.request.models import Exact, ItemId, Open
from antiphon_core.request.text import TextFormat

COMPACTION = "compaction"
TRIGGER = "compaction_trigger"
CONFIGURATION = "configuration_update"

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ContextManagement(Exact):
    type: Literal["compaction"]
    compact_threshold: Annotated[int, Field(ge=1)] | None = None
    """The number of prompt tokens from which on to compact. The default is four fifths of the model's context length;
    if that is unknown, nothing is compacted."""


class Compaction(Open):
    """A summary that replaces the items before it, encrypted by the server that made it."""

    type: Literal["compaction"]
    encrypted_content: Annotated[str, Field(max_length=limits.BODY_BYTES_MAX)]
    id: ItemId | None = None


class CompactionTrigger(Open):
    type: Literal["compaction_trigger"]
    id: ItemId | None = None


class EffortUpdate(Exact):
    """The only reasoning option that can change within a conversation."""

    effort: Effort | None = None


class FormatUpdate(Exact):
    format: TextFormat


class ConfigurationUpdate(Open):
    """New values of settings, which hold until a later update changes them."""

    type: Literal["configuration_update"]
    reasoning: EffortUpdate | None = None
    text: FormatUpdate | None = None
    id: ItemId | None = None
