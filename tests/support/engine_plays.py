"""Scripts for the model behind an engine, in terms that every engine's stand-in understands.

The contract suite says how the engine must behave in each play; each stand-in (a script, a fake server, a real server's
scripted model) performs the play in its own way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto


class Ending(Enum):
    """How the generation ends, after all messages."""

    BY_ITSELF = auto()
    SILENCE = auto()
    """Nothing more comes, and the stream stays open."""
    ERROR = auto()
    """The model answers with an error."""
    LOST = auto()
    """The server is gone."""


@dataclass
class Play:
    """One message after the other, then the ending. `begun` is set when the other end was asked, `stopped` when it saw
    the cancellation."""

    messages: Sequence[Sequence[int]]
    ending: Ending = Ending.BY_ITSELF
    pause_s: float = 0.0
    """Before each message."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)


def as_text(ids: Sequence[int]) -> str:
    """Ids as a text that is one character for each, of three bytes and never white space."""
    return "".join(chr(_FIRST + number) for number in ids)


def ids_in(text: str) -> list[int]:
    """The ids that `as_text` wrote."""
    return [ord(character) - _FIRST for character in text]


_FIRST = 0x4E00
