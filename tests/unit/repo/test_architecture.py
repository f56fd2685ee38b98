"""The table in ARCHITECTURE.md that names the files in which a change begins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.repo.test_import_rules import PACKAGES

ROOT = Path(__file__).parents[3]
PATH = re.compile(r"`([a-z_]+(?:/[a-z_0-9.]+)+/?)`")
CHANGES = (
    "access log",
    "cancelled generation stops",
    "store outage",
    "takeover of a turn under an idempotency key",
    "a metric",
    "a header",
    "option of an engine",
    "a model family",
    "a quota",
    "a page size",
)
"""Ten typical changes, each with exactly one row in the table."""


def rows() -> dict[str, list[str]]:
    """Returns the paths that each row of the table names, by change."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.partition("## Where to change what\n")[2].partition("\n## ")[0]
    cells = (line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| "))
    return {change: PATH.findall(where) for change, where in cells if change != "to change"}


@pytest.mark.parametrize("change", sorted(rows()))
def test_files_in_the_table_of_changes_exist(change: str) -> None:
    paths = rows()[change]
    assert paths
    for path in paths:
        package, _, rest = path.partition("/")
        assert (PACKAGES[package] / rest).exists(), path


@pytest.mark.parametrize("change", CHANGES)
def test_a_typical_change_has_one_row(change: str) -> None:
    assert len([row for row in rows() if change in row]) == 1
