"""The statements of queries.sql, by name: SQL is data, and a name that is not there fails at import."""

from __future__ import annotations

import re
from importlib.resources import files

_SECTION = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def _load() -> dict[str, str]:
    text = (files("antiphon_store.backends.sqlite") / "queries.sql").read_text(encoding="utf-8")
    _preamble, *parts = _SECTION.split(text)
    return dict(zip(parts[::2], map(_without_comments, parts[1::2]), strict=True))


def _without_comments(section: str) -> str:
    return "\n".join(line for line in section.splitlines() if not line.startswith("--")).strip()


QUERIES = _load()
