"""Reads and writes the blocks of documents that `make bench-scaling` generates: between `<!-- scaling: NAME -->` and
`<!-- /scaling -->`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_BLOCK = re.compile(r"(<!-- scaling: ([\w-]+) -->\n).*?(<!-- /scaling -->)", re.DOTALL)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table. All columns but the first are numbers."""
    lines = [_line(headings), "|---" + "|---:" * (len(headings) - 1) + "|", *map(_line, rows)]
    return "\n".join(lines) + "\n"


def written(text: str, blocks: Mapping[str, str]) -> str:
    """Returns a document with these blocks. KeyError: the document has a block that is not among them."""
    return _BLOCK.sub(lambda found: f"{found[1]}{blocks[found[2]]}{found[3]}", text)


def blocks_in(text: str) -> Mapping[str, str]:
    """Returns the present text of each block of a document."""
    return {found[2]: found[0].removeprefix(found[1]).removesuffix(found[3]) for found in _BLOCK.finditer(text)}


def write(path: Path, blocks: Mapping[str, str]) -> None:
    path.write_text(written(path.read_text("utf-8"), blocks), "utf-8")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
