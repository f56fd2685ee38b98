from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from antiphon_core.telemetry import remedies
from antiphon_core.telemetry.log_fields import REMEDY

ROOT = Path(__file__).parents[4]
ERRORS = {"error", "exception", "critical"}


def calls() -> Iterator[tuple[str, ast.Call]]:
    """The calls that log an error, each with its file and line."""
    for folder in ("libs", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "log." in text else ():
                if isinstance(node, ast.Call) and _is_error(node.func):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def _is_error(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ERRORS
        and isinstance(function.value, ast.Name)
        and function.value.id == "log"
    )


def test_every_logged_error_has_a_remedy() -> None:
    found = dict(calls())
    without = [
        place
        for place, call in found.items()
        if not any(each.arg == "extra" and ast.unparse(each.value).startswith("remedies.") for each in call.keywords)
    ]
    assert len(found) > 20
    assert not without


def test_a_remedy_is_a_sentence() -> None:
    told = [found[REMEDY] for found in vars(remedies).values() if isinstance(found, dict) and REMEDY in found]
    assert len(told) > 3
    assert all(text.endswith(".") for text in told)
