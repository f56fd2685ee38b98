"""Stop sequences, searched for in text that arrives in chunks.

A stop sequence is not part of the output, so the end of a chunk that may be the beginning of one is held back. The stop
sequence that is complete first counts; of several that end at the same position, the longest one. So the result does
not depend on where the chunks were cut.

Nearly every chunk has at most a few characters with which a stop sequence begins. Only there is a search begun: with 16
stop sequences, comparing each of them with each end of each chunk took longer than all other work for the chunk.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

_BEGINNING_CHARS = 4
"""The first so many characters of a stop sequence are looked up at once, before more of it is compared."""


class StopTexts:
    """The search for the stop sequences of one generation."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.is_matched = False
        self.found = ""
        """The stop sequence that matched."""
        self._texts = tuple(filter(None, texts))
        self._sorted = sorted(self._texts)
        self._begins = {text[:length] for text in self._texts for length in range(1, _BEGINNING_CHARS + 1)}
        self._first = re.compile("|".join({re.escape(text[0]) for text in self._texts}))
        self._lengths = tuple(map(len, self._texts))
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
        if self._first.search(whole) is None:
            return whole
        if len(whole) >= min(self._lengths) and (ends := self._ends(whole)):
            end, at = min(ends)
            self.is_matched, self.found, self._held = True, whole[at:end], whole[at:]
            return whole[:at]
        shown = len(whole) - self._held_length(whole)
        self._held = whole[shown:]
        return whole[:shown]

    def may_match_in(self, text: str) -> bool:
        """Whether the text, fed next, might complete a stop sequence."""
        whole = self._held + text
        return self._first.search(whole) is not None and any(stop in whole for stop in self._texts)

    def finish(self) -> str:
        """Returns the text that was held back and is no stop sequence, because the text has ended."""
        if self.is_matched:
            return ""
        held, self._held = self._held, ""
        return held

    def _ends(self, whole: str) -> list[tuple[int, int]]:
        """The end and the beginning of each stop sequence in the text."""
        return [(at + len(stop), at) for stop in self._texts if (at := whole.find(stop)) >= 0]

    def _held_length(self, whole: str) -> int:
        """How many characters at the end may be the beginning of a stop sequence."""
        for found in self._first.finditer(whole, max(len(whole) - max(self._lengths) + 1, 0)):
            if whole[(start := found.start()) : start + _BEGINNING_CHARS] not in self._begins:
                continue
            end = whole[start:]
            at = bisect_left(self._sorted, end)  # the first of the stop sequences that begin with it, if any does
            if at < len(self._sorted) and self._sorted[at].startswith(end):
                return len(end)
        return 0
