"""Loads the named statements of an .sql file.

    -- name: find_node
    -- Comments in whole lines are left out.
    SELECT ...

A statement belongs to the name above it. Text before the first name is a comment.
"""

from __future__ import annotations

import re
from importlib.resources import files

_SECTION = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(package: str, file: str = "queries.sql") -> dict[str, str]:
    """The statements of a file in the package, by name."""
    return parse((files(package) / file).read_text(encoding="utf-8"))


def parse(text: str) -> dict[str, str]:
    """The statements of such a file, by name. ValueError: a name occurs twice."""
    _preamble, *parts = _SECTION.split(text)
    names, sections = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError("A name stands for one statement only.")
    return dict(zip(names, map(_without_comments, sections), strict=True))


def _without_comments(section: str) -> str:
    return "\n".join(line for line in section.splitlines() if not line.startswith("--")).strip()
