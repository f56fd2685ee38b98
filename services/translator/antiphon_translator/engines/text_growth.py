"""Finds the new text in each message of a text stream, whether a message holds only the new text or all text so far.

A character is passed on when it is complete: a message may end inside one, as bytes, or as a U+FFFD that the server
wrote in its place and replaces in its next message.
"""

from __future__ import annotations

import codecs
from enum import Enum, auto
from itertools import pairwise

from antiphon_core.errors import EngineFault

_UNFINISHED = "\ufffd"


class Growth(Enum):
    """The content of a message: only the new text, all text so far, or one of the two."""

    DELTA = auto()
    CUMULATIVE = auto()
    UNKNOWN = auto()


class GrowingText:
    """The text of one stream. With Growth.UNKNOWN the first messages show which kind it is, and text that could be
    either is held back until then."""

    def __init__(self, growth: Growth) -> None:
        self.growth = growth
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._emitted = ""
        self._last = ""
        self._held: list[bytes] = []
        self._first = ""

    def feed(self, message: bytes) -> str:
        """Returns the text that a message adds. EngineFault: the message lacks text that came before."""
        match self.growth:
            case Growth.DELTA:
                return self._decode(message)
            case Growth.CUMULATIVE:
                return self._grow(message)
            case Growth.UNKNOWN:
                return self._guess(message)

    def finish(self, *, cut_off: bool = False) -> str:
        """Ends the stream and returns the rest of its text. With `cut_off` an incomplete last character is left out."""
        added = ""
        if self.growth is Growth.UNKNOWN:
            added = self._decide(Growth.CUMULATIVE if self._grows() else Growth.DELTA)
        if self.growth is Growth.DELTA:
            return added + ("" if cut_off else self._decode(b"", final=True))
        rest, self._emitted = self._last[len(self._emitted) :], self._last
        return added + ("" if cut_off else rest)

    def _grow(self, message: bytes) -> str:
        text = message.decode("utf-8", "replace")
        if not text.startswith(self._emitted):
            if self._emitted[:1] != text[:1]:  # the server does not do what its configuration says
                self.growth = Growth.DELTA
                return self._decode(message)
            raise EngineFault("The engine took back text that it had sent.")
        self._last = text
        stable = text.rstrip(_UNFINISHED)
        added, self._emitted = stable[len(self._emitted) :], max(self._emitted, stable, key=len)
        return added

    def _guess(self, message: bytes) -> str:
        """Decides between DELTA and CUMULATIVE. The first message is the same in both. Two further messages that each
        begin with all text before them mean CUMULATIVE."""
        if not message:
            return ""
        self._held.append(message)
        if len(self._held) == 1:
            return self._begin(message)
        if not _stem(message).startswith(_stem(self._held[0])):
            return self._decide(Growth.DELTA)
        if len(self._held) < 3:
            return ""
        return self._decide(Growth.CUMULATIVE if self._grows() else Growth.DELTA)

    def _begin(self, message: bytes) -> str:
        """Emits the first message, unless the character at its end may be incomplete."""
        text = message.decode("utf-8", "replace")
        self._first = "" if text.endswith(_UNFINISHED) else text
        return self._first

    def _grows(self) -> bool:
        return all(_is_more(later, than=earlier) for earlier, later in pairwise(self._held))

    def _decide(self, growth: Growth) -> str:
        """Returns all text that was held back, without the first message if that was emitted already."""
        self.growth = growth
        held, self._held = self._held, []
        return "".join(map(self.feed, held)).removeprefix(self._first)


def _is_more(message: bytes, *, than: bytes) -> bool:
    """Whether a message begins with all of the other and adds to it, be it half a character."""
    stem, before = _stem(message), _stem(than)
    goes_on = len(stem) > len(before) or (before and len(message) > len(stem.encode()))
    return bool(goes_on) and stem.startswith(before)


def _stem(message: bytes) -> str:
    """A message without a character at its end that may be unfinished."""
    return message.decode("utf-8", "replace").rstrip(_UNFINISHED)
