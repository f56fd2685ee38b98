"""Literals that are looked for together in a text of which more may come."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Markers:
    """Literals to be looked for, together: of two at one place the longer counts."""

    def __init__(self, literals: Iterable[str]) -> None:
        found = sorted(set(literals), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found)) if found else r"(?!)")
        self._beginnings = {literal[:length] for literal in found for length in range(1, len(literal))}
        self._longest = len(found[0]) if found else 0
        first = "".join(re.escape(literal[0]) for literal in found)
        self._first = re.compile(f"[{first}]" if first else r"(?!)")

    def search(self, text: str, start: int, *, ended: bool) -> tuple[int, int, str | None]:
        """Returns how much may be passed on, where to go on, and the literal that was found there, if one was.

        The end of the text that may be the beginning of a literal is not passed on, and neither is a literal within it
        or behind: the first one counts, and it is not known yet."""
        first = self._first.search(text, start)
        if first is None:
            return len(text), len(text), None
        start = first.start()
        match = self._pattern.search(text, start)
        begins = len(text) if ended else self._beginning(text, start)
        if match is not None and (ended or match.start() < begins):
            return match.start(), match.end(), match.group()
        return begins, begins, None

    def _beginning(self, text: str, start: int) -> int:
        """Where the first beginning of a literal is that the text ends with; the end of the text when there is none."""
        for candidate in self._first.finditer(text, max(start, len(text) - self._longest + 1)):
            if text[candidate.start() :] in self._beginnings:
                return candidate.start()
        return len(text)
