"""Finds the new text in each message of a text stream, whether a message holds only the new text or all text so far.

A character is passed on when it is complete: a message may end in the midst of one, as bytes, or as the U+FFFD that the
server wrote in place of the character and takes back with its next message.
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
    """One stream. Where nothing says how it grows the messages do, and what is not clear yet is held back."""

    def __init__(self, growth: Growth) -> None:
        self.growth = growth
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._told = ""
        self._last = ""
        self._held: list[bytes] = []
        self._first = ""

    def feed(self, message: bytes) -> str:
        """The text that a message adds. EngineFault: the server took text back."""
        match self.growth:
            case Growth.DELTA:
                return self._decode(message)
            case Growth.CUMULATIVE:
                return self._grown(message)
            case Growth.UNKNOWN:
                return self._guess(message)

    def finish(self, *, cut_off: bool = False) -> str:
        """Nothing follows. A character that was `cut_off` before its last byte is left out."""
        added = ""
        if self.growth is Growth.UNKNOWN:
            added = self._decide(Growth.CUMULATIVE if self._grows() else Growth.DELTA)
        if self.growth is Growth.DELTA:
            return added + ("" if cut_off else self._decode(b"", final=True))
        rest, self._told = self._last[len(self._told) :], self._last
        return added + ("" if cut_off else rest)

    def _grown(self, message: bytes) -> str:
        text = message.decode("utf-8", "replace")
        if not text.startswith(self._told):
            if self._told[:1] != text[:1]:  # the server does not do what its configuration says
                self.growth = Growth.DELTA
                return self._decode(message)
            raise EngineFault("The engine took back text that it had sent.")
        self._last = text
        stable = text.rstrip(_UNFINISHED)
        added, self._told = stable[len(self._told) :], stable if len(stable) > len(self._told) else self._told
        return added

    def _guess(self, message: bytes) -> str:
        """The first message is the same in both ways. Two that begin with all that was before settle it."""
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
        """Tells the first message, unless a character at its end may not be complete."""
        text = message.decode("utf-8", "replace")
        self._first = "" if text.endswith(_UNFINISHED) else text
        return self._first

    def _grows(self) -> bool:
        return all(_is_more(later, than=earlier) for earlier, later in pairwise(self._held))

    def _decide(self, growth: Growth) -> str:
        """All that was held back, but for the first message where it was told."""
        self.growth = growth
        held, self._held = self._held, []
        return "".join(map(self.feed, held)).removeprefix(self._first)


def _is_more(message: bytes, *, than: bytes) -> bool:
    """Whether it begins with all of the other and goes on, be it with half a character."""
    stem, before = _stem(message), _stem(than)
    goes_on = len(stem) > len(before) or (before and len(message) > len(stem.encode()))
    return bool(goes_on) and stem.startswith(before)


def _stem(message: bytes) -> str:
    """A message without what may be an unfinished character at its end."""
    return message.decode("utf-8", "replace").rstrip(_UNFINISHED)
