"""Counts and logs parts of a server's stream that cannot be read and hold nothing of the answer.

Each such part is counted. The first one of each kind is logged with its form, and never with its text: texts of a
server may repeat the conversation. The kinds are the names of the members of a stream that readers look at.
"""

from __future__ import annotations

import logging
import re
from typing import Protocol

from antiphon_core.jsons import kind
from antiphon_core.telemetry import metrics

log = logging.getLogger(__name__)

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")  # the form of finish reasons, types and names of members
_NAMES_MAX = 8


class UnreadReport(Protocol):
    def note(self, part: str, given: object) -> None:
        """Reports one part of this kind. `given` is what the server sent."""


class UnreadParts:
    """The unread parts of one model's server."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._logged: set[str] = set()

    def note(self, part: str, given: object) -> None:
        metrics.ENGINE_UNREAD.of(self._model, part).add()
        if part not in self._logged:
            self._logged.add(part)
            log.warning("model '%s': the server's %s cannot be read: %s", self._model, part, describe(given))


def describe(given: object) -> str:
    """The form of a value: its type, a single word as it is, and of an object the names of its members."""
    if isinstance(given, str):
        return given if _WORD.fullmatch(given) else f"a text of {len(given)} characters"
    if isinstance(given, dict):
        names = [name for name in list(given)[:_NAMES_MAX] if _WORD.fullmatch(str(name))]
        return f"an object with {', '.join(names)}" if names else "an object"
    return kind(given)
