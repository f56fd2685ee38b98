"""Searches for several literals at once in text that arrives in chunks."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Markers:
    """A set of literals to search for. If two match at the same position, the longer one counts. `first` is a pattern
    of the characters with which they begin: text without one of these has no marker, and most has none."""

    def __init__(self, literals: Iterable[str]) -> None:
        found = sorted(set(literals), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found)) if found else r"(?!)")
        self._beginnings = {literal[:length] for literal in found for length in range(1, len(literal))}
        self._longest = len(found[0]) if found else 0
        first = "".join(re.escape(literal[0]) for literal in found)
        self.first = re.compile(f"[{first}]" if first else r"(?!)")

    def search(self, text: str, start: int, *, ended: bool) -> tuple[int, int, str | None]:
        """Returns the end of the text that may be emitted, the position to go on from, and the literal between the two,
        if one was found.

        Unless the text has `ended`, an end of it that may be the beginning of a literal is held back, and so is every
        match behind that beginning: the first literal counts, and it is not known yet."""
        first = self.first.search(text, start)
        if first is None:
            return len(text), len(text), None
        start = first.start()
        match = self._pattern.search(text, start)
        begins = len(text) if ended else self._beginning(text, start)
        if match is not None and (ended or match.start() < begins):
            return match.start(), match.end(), match.group()
        return begins, begins, None

    def _beginning(self, text: str, start: int) -> int:
        """The first position from which the rest of the text may be the beginning of a literal; else its length."""
        for candidate in self.first.finditer(text, max(start, len(text) - self._longest + 1)):
            if text[candidate.start() :] in self._beginnings:
                return candidate.start()
        return len(text)
