"""The checks of docstring openings and names against docs/glossary.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support import plain_names, plain_words
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


@pytest.mark.parametrize(
    "source",
    [
        "def opened(): ...",
        "def _checked(): ...",
        "async def written(): ...",
        "class Log:\n    def found(self): ...",
        "class Log:\n    def read(self):\n        def told(): ...",
        "class Log:\n    closed: bool",
        "class Log:\n    @property\n    def terminal(self) -> bool: ...",
    ],
)
def test_a_name_that_is_a_participle_is_found(source: str) -> None:
    assert len(list(plain_names.faults(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def seed(): ...",
        "def open_log(): ...",
        "def closed_error(): ...",
        "class Log:\n    is_closed: bool\n    needs_room: bool = False\n    opened: int",
        "class LogSettings:\n    audit: bool = False",
    ],
)
def test_verbs_nouns_and_statements_are_no_faults(source: str) -> None:
    assert not list(plain_names.faults(ast.parse(source)))


def test_every_allowed_name_is_in_use_and_has_a_reason() -> None:
    sources = [path for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py")]
    used = {name for path in sources for name in _names(path)}
    assert not [name for name, reason in plain_names.ALLOWED.items() if name not in used or not reason]


def _names(path: Path) -> set[str]:
    """The members of all classes in a file, as `Class.member`."""
    classes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef)]
    members = [(each.name, member) for each in classes for member in each.body]
    return {f"{name}.{getattr(member, 'name', '') or _target(member)}" for name, member in members}


def _target(member: ast.stmt) -> str:
    return ast.unparse(member.target) if isinstance(member, ast.AnnAssign) else ""
