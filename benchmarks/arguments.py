"""Arguments that several benchmarks have."""

from __future__ import annotations

from collections.abc import Sequence


def chosen(what: str, asked: str, known: Sequence[str]) -> Sequence[str]:
    """Returns the names in a list with commas, or all known ones if it is empty. SystemExit: a name is unknown."""
    names = asked.split(",") if asked else known
    for name in set(names) - set(known):
        raise SystemExit(f"there is no {what} '{name}'; there are {', '.join(known)}")
    return names
