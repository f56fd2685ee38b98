"""Stop sequences, searched for in text that arrives in chunks.

A stop sequence is not part of the output, so the end of a chunk that may be the beginning of one is held back. The stop
sequence that is complete first counts; of several that end at the same position, the longest one. So the result does
not depend on where the chunks were cut.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopTexts:
    """The search for the stop sequences of one generation."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.matched = False
        self.found = ""
        """The stop sequence that matched."""
        self._texts = tuple(filter(None, texts))
        self._held = ""

    def feed(self, text: str) -> str:
        """Returns the text that cannot be part of a stop sequence; nothing more once `matched`."""
        if not self._texts or self.matched:
            return "" if self.matched else text
        whole = self._held + text
        ends = [(at + len(stop), at) for stop in self._texts if (at := whole.find(stop)) >= 0]
        if ends:
            end, at = min(ends)
            self.matched, self.found, self._held = True, whole[at:end], ""
            return whole[:at]
        shown = len(whole) - self._held_length(whole)
        self._held = whole[shown:]
        return whole[:shown]

    def finish(self) -> str:
        """Returns the text that was held back: at the end of the output it is no stop sequence."""
        held, self._held = self._held, ""
        return held

    def _held_length(self, whole: str) -> int:
        """How many characters at the end may be the beginning of a stop sequence."""
        longest = min(len(whole), max(map(len, self._texts)) - 1)
        return next((n for n in range(longest, 0, -1) if any(t.startswith(whole[-n:]) for t in self._texts)), 0)
