"""Texts that end a generation, looked for in a text that arrives in pieces.

What matches is not part of the output, so the end of a piece that may be the beginning of a stop text is held back.
The first stop text to be complete counts, and of those that are complete at the same place the longest: so it does not
matter how the text is cut.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopTexts:
    """One generation's."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.matched = False
        self._texts = tuple(filter(None, texts))
        self._held = ""

    def feed(self, text: str) -> str:
        """Returns the text that is certain not to begin a stop text; nothing more once `matched`."""
        if not self._texts or self.matched:
            return "" if self.matched else text
        whole = self._held + text
        ends = [(at + len(stop), at) for stop in self._texts if (at := whole.find(stop)) >= 0]
        if ends:
            self.matched, self._held = True, ""
            return whole[: min(ends)[1]]
        shown = len(whole) - self._begun(whole)
        self._held = whole[shown:]
        return whole[:shown]

    def finish(self) -> str:
        """Nothing follows: what was held back was no stop text."""
        held, self._held = self._held, ""
        return held

    def _begun(self, whole: str) -> int:
        """How many characters at the end may be the beginning of a stop text."""
        longest = min(len(whole), max(map(len, self._texts)) - 1)
        return next((n for n in range(longest, 0, -1) if any(t.startswith(whole[-n:]) for t in self._texts)), 0)
