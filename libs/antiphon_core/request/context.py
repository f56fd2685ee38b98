"""Parameters and items about the context of a request: its compaction, and changes of settings within it.

`context_management` has a response begin with a compaction when its prompt is long; a `compaction_trigger` asks for one
at once; a `compaction` item is what came of one. A `configuration_update` changes settings for all that follows it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon_core import limits
from antiphon_core.request.models import Exact, Open
from antiphon_core.request.text import TextFormat

COMPACTION = "compaction"
TRIGGER = "compaction_trigger"
CONFIGURATION = "configuration_update"

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ContextManagement(Exact):
    type: Literal["compaction"]
    compact_threshold: Annotated[int, Field(ge=1)] | None = None
    """Tokens of a prompt that is to be compacted. Without it, four fifths of the model's context; if the context is not
    known, nothing is compacted."""


class Compaction(Open):
    """A summary that stands for what was said before it. Who made it has sealed it."""

    type: Literal["compaction"]
    encrypted_content: Annotated[str, Field(max_length=limits.BODY_BYTES_MAX)]
    id: str | None = None


class CompactionTrigger(Open):
    type: Literal["compaction_trigger"]
    id: str | None = None


class EffortUpdate(Exact):
    """Nothing but the effort can be changed on the way."""

    effort: Effort | None = None


class FormatUpdate(Exact):
    format: TextFormat


class ConfigurationUpdate(Open):
    """Each setting holds until a later update changes it."""

    type: Literal["configuration_update"]
    reasoning: EffortUpdate | None = None
    text: FormatUpdate | None = None
    id: str | None = None
