"""The checks of docstring openings and names against docs/glossary.md."""

from __future__ import annotations

import pytest

from tests.support import plain_words
from tests.support.plain_words import RETIRED, ROOT, faults


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""What a turn costs."""', 1),
        ('def cost():\n    """The same, for a session."""', 2),
        ('class Turn:\n    cost: int\n    """Who pays."""', 3),
        ("class Begun: ...", 1),
        ("class _Begun: ...", 1),
    ],
)
def test_a_fault_is_found_with_its_line(source: str, line: int) -> None:
    assert [found for found, _ in faults(source)] == [line]


def test_allowed_docstring_openings_pass() -> None:
    assert not list(
        faults('"""The cost of a turn."""\ndef whatever():\n    """Whole turns only."""\n    return "What"')
    )


def test_every_exempt_file_has_a_fault() -> None:
    for name in plain_words.EXEMPT:
        assert list(faults((ROOT / name).read_text(encoding="utf-8"))), name


def test_the_glossary_has_every_retired_name() -> None:
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    assert not [name for name in RETIRED if f"`{name}`" not in glossary]
