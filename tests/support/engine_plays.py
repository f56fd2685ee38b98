"""Scripts for the model behind an engine, in a form that the stand-in of every engine can perform.

The contract suite defines how the engine must behave in each play. Each stand-in (a script, a fake server, a real
server's scripted model) performs the play in its own way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto


class Ending(Enum):
    """The end of a generation, after all messages."""

    BY_ITSELF = auto()
    SILENCE = auto()
    """No more messages, but the stream stays open."""
    ERROR = auto()
    """The model answers with an error."""
    LOST = auto()
    """The server closes the connection."""


@dataclass
class Play:
    """Messages in order, and then the ending. `begun` is set when the stand-in got the request, `stopped` when it saw
    the cancellation."""

    messages: Sequence[Sequence[int]]
    ending: Ending = Ending.BY_ITSELF
    pause_s: float = 0.0
    """The pause before each message."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)


def as_text(ids: Sequence[int]) -> str:
    """Returns ids as a text with one character for each: three bytes, and never white space."""
    return "".join(chr(_FIRST + number) for number in ids)


def ids_in(text: str) -> list[int]:
    """Returns the ids of a text of `as_text`."""
    return [ord(character) - _FIRST for character in text]


_FIRST = 0x4E00
