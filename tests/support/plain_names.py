"""Checks names of functions and booleans of the product; `plain_words` runs this check.

A function is named by a verb or by the noun of its result, and a boolean is a statement.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

_IRREGULAR = frozenset(
    (
        "asked begun bound broken built caught chosen drawn driven found given gone grown heard held hidden kept known "
        "left lost made met paid said seen sent shown sold spent spoken stood taken thrown told understood wanted "
        "woken worn written"
    ).split()
)
_NO_PARTICIPLES = frozenset(("bed", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"))

# Names that the rules forbid, each with the reason.
ALLOWED: Mapping[str, str] = {
    "EventAppend.terminal": "a field of the wire",
    "EventBatch.terminal": "a field of the wire",
    "LifecycleSuite.opened": "a fixture, whose name is that of its value",
    "Model.ready": "a field of the wire",
    "Operation.cancels": "a column of the table of operations, whose rows read as sentences",
    "Operation.generates": "a column of the table of operations, whose rows read as sentences",
    "Operation.upgrades": "a column of the table of operations, whose rows read as sentences",
    "Roles.developer": "one of the flags of a template, which name what it reads",
    "Roles.empty": "one of the flags of a template, which name what it reads",
    "Roles.system": "one of the flags of a template, which name what it reads",
    "Roles.tool": "one of the flags of a template, which name what it reads",
    "_Stream.eof": "the name that zlib has for it",
    "_Zlib.eof": "the name that zlib has for it",
    "_Zstd.eof": "the name that zlib has for it",
}


def faults(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the line and the description of each name that is against the rules."""
    for line, name in _functions(tree):
        if _is_participle(name.rpartition(".")[2]) and name not in ALLOWED:
            yield line, f"{name} is a participle: a function is named by a verb, or by the noun of its result"
    for line, name in _booleans(tree):
        if "_" not in name.rpartition(".")[2].strip("_") and name not in ALLOWED:
            yield line, f"{name} is a boolean: its name is a statement, such as `is_open`, `can_read` or `needs_room`"


def _is_participle(name: str) -> bool:
    word = name.strip("_")
    return word in _IRREGULAR or (
        len(word) > 3 and word.isalpha() and word.endswith("ed") and word not in _NO_PARTICIPLES
    )


def _functions(node: ast.AST, owner: str = "") -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.lineno, f"{owner}{child.name}"
        inner = f"{child.name}." if isinstance(child, ast.ClassDef) else ""
        yield from _functions(child, inner)


def _booleans(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields boolean fields and properties. Settings are left out: people write their names in files."""
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef) or owner.name.endswith("Settings"):
            continue
        for member in owner.body:
            match member:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="bool")):
                    yield member.lineno, f"{owner.name}.{name}"
                case ast.FunctionDef(name=name, returns=ast.Name(id="bool"), decorator_list=[ast.Name(id="property")]):
                    yield member.lineno, f"{owner.name}.{name}"
