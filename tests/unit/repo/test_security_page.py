"""docs/explain/security.md says what each kind of caller can and cannot do: each row names tests that exist."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/explain/security.md"
ROW = re.compile(r"^\| (can|cannot) \| (.+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
CALLERS = (
    *("Anonymous", "A key holder: a tenant", "A holder of a token", "An engine", "A tool server"),
    *("A key holder who names", "The database", "The operator"),
)


def missing(text: str) -> list[str]:
    """The tests that a text names, and that do not exist."""
    named = sorted(TEST.findall(text))
    found = []
    for path, tests in groupby(named, key=lambda each: each[0]):
        written = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
        found += [f"{path}::{test}" for _, test in tests if f"def {test}(" not in written]
    return found


def test_every_test_that_the_page_names_exists() -> None:
    assert not missing(PAGE.read_text(encoding="utf-8"))


def test_a_test_or_a_file_that_does_not_exist_is_found() -> None:
    here = "tests/unit/repo/test_security_page.py"
    wrong = [f"{here}::test_nothing", "tests/attacks/test_nothing.py::test_nothing"]
    right = f"{here}::{test_every_test_that_the_page_names_exists.__name__}"
    assert missing(" ".join(f"`{each}`" for each in [*wrong, right])) == sorted(wrong)


@pytest.mark.parametrize("caller", CALLERS)
def test_each_kind_of_caller_has_rows_of_both_kinds_and_each_row_names_tests(caller: str) -> None:
    page = PAGE.read_text(encoding="utf-8").split("## Against whom")[1].split("\n## ")[0]
    (section,) = (each for each in page.split("\n### ") if each.startswith(caller))
    rows = ROW.findall(section)
    assert {verb for verb, _, _ in rows} == {"can", "cannot"}
    assert section.count("\n| ") == len(rows) + 1  # and the head of the table
    for _, what, shown_by in rows:
        assert TEST.findall(shown_by), what
        assert not TEST.sub("", shown_by).strip(", "), what
