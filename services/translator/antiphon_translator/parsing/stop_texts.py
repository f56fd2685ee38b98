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
        self.is_matched = False
        self.found = ""
        """The stop sequence that matched."""
        self._texts = tuple(filter(None, texts))
        self._held = ""
        self._dropped = 0

    @property
    def withheld(self) -> int:
        """How many characters at the end of the text so far were not returned: they may be, or are, a stop sequence
        and the text behind it."""
        return len(self._held) + self._dropped

    def feed(self, text: str) -> str:
        """Returns the text that cannot be part of a stop sequence; nothing more once `is_matched`."""
        if not self._texts:
            return text
        if self.is_matched:
            self._dropped += len(text)
            return ""
        whole = self._held + text
        ends = [(at + len(stop), at) for stop in self._texts if (at := whole.find(stop)) >= 0]
        if ends:
            end, at = min(ends)
            self.is_matched, self.found, self._held = True, whole[at:end], whole[at:]
            return whole[:at]
        shown = len(whole) - self._held_length(whole)
        self._held = whole[shown:]
        return whole[:shown]

    def finish(self) -> str:
        """Returns the text that was held back and is no stop sequence, because the text has ended."""
        if self.is_matched:
            return ""
        held, self._held = self._held, ""
        return held

    def _held_length(self, whole: str) -> int:
        """How many characters at the end may be the beginning of a stop sequence."""
        longest = min(len(whole), max(map(len, self._texts)) - 1)
        return next((n for n in range(longest, 0, -1) if any(t.startswith(whole[-n:]) for t in self._texts)), 0)
