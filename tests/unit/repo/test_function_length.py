"""Limits the length of functions, so that each fits on a screen and its steps have names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
LINES_MAX = 40
FOLDERS = ("libs", "services", "triton_models", "protos", "clients", "examples", "k8s", "containers", "docs")
GENERATED = (
    "protos/python/antiphon_protos/antiphon/",
    "protos/python/antiphon_protos/message_pool.py",
    "clients/python/antiphon_store_client/details/",
    "clients/python/antiphon_store_client/v1/",
)
SKIPPED = {"node_modules", ".venv", "build", "dist"}


def long_functions(source: str) -> Iterator[tuple[str, int]]:
    """Yields the name and the length of each function of more than LINES_MAX lines, counted from `def`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LINES_MAX:
                yield node.name, length


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if not SKIPPED & set(relative.parts) and not relative.as_posix().startswith(GENERATED):
                yield path


def test_no_function_of_the_product_is_too_long() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name} has {length} lines"
        for path in sources()
        for name, length in long_functions(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_the_check_sees_every_service() -> None:
    packages = {path.relative_to(ROOT).parts[1] for path in sources() if path.relative_to(ROOT).parts[0] == "services"}
    assert packages == {"allinone", "edge", "store", "tools", "translator"}


def test_a_long_function_is_found_with_its_length() -> None:
    source = "class A:\n    def long(self):\n" + "        pass\n" * LINES_MAX + "    def short(self):\n        pass\n"
    assert list(long_functions(source)) == [("long", LINES_MAX + 1)]
