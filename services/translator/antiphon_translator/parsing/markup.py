"""Tells the markup of calls from the text in it, where a call that cannot be read is shown as text."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Markup:
    """The markup of a family's calls: the literals `around` calls and sections, and those `within` calls."""

    def __init__(self, around: Iterable[str], within: Iterable[str]) -> None:
        ordered = sorted(set(around), key=len, reverse=True)
        everything = sorted({*ordered, *within}, key=len, reverse=True)
        self._leading = _run_of(ordered)
        self._trailing = _run_of(literal[::-1] for literal in ordered)  # of the reversed text
        self._any = re.compile("|".join(map(re.escape, everything)) or "(?!)")

    def is_all_of(self, text: str) -> bool:
        """Whether a text is nothing but markup and white space."""
        return not self._any.sub("", text).strip()

    def parts(self, text: str) -> tuple[str, str, str]:
        """A text as the markup before it, its body, and the markup behind it."""
        leading = self._leading.match(text)
        start = leading.end() if leading is not None else 0
        trailing = self._trailing.match(text[start:][::-1])
        end = len(text) - (trailing.end() if trailing is not None else 0)
        return text[:start], text[start:end], text[end:]


def _run_of(literals: Iterable[str]) -> re.Pattern[str]:
    """White space and literals in any order."""
    return re.compile("(?:" + "|".join((r"\s", *map(re.escape, literals))) + ")*+")
