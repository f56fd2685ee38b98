"""Literals in Python's syntax, as models write them.

Python's own parser reads them. Line breaks in strings, zeros before a number, `true`, `false` and `null`, which it
rejects or takes for names, are read as well.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

from antiphon_core import python_syntax
from antiphon_translator.parsing import surrogate_escapes

QUOTES = "\"'"
STRING = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
"""The pattern of a string."""
UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)
"""The errors of a source that is no literal."""

_WORDS = {"true": True, "false": False, "null": None}
# Strings, and whole numbers that begin with zeros.
_MISWRITTEN = re.compile(rf"{STRING}|(?<![\w.])(?=\d++(?![\w.]))0++(?=\d)", re.DOTALL)


def value_of(source: str) -> Any:
    """The value of a literal; None if the source is none."""
    try:
        return value(tree(source))
    except UNREADABLE:
        return None


def json_of(source: str) -> str | None:
    """The JSON of a literal; None if the source is none, or has no JSON."""
    try:
        return json.dumps(value(tree(source)), ensure_ascii=False, allow_nan=False)
    except UNREADABLE:
        return None


def tree(source: str) -> ast.expr:
    """The tree of an expression. Raises one of UNREADABLE."""
    spelt = _MISWRITTEN.sub(_as_python, surrogate_escapes.replace_escapes(source))
    # A control token within a string is a lone surrogate (alphabet.py): Python reads it as an escape.
    readable = spelt.encode("utf-8", "backslashreplace").decode("utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a string is a SyntaxWarning, which helps nobody here
        return python_syntax.expression(readable).body


def _as_python(token: re.Match[str]) -> str:
    """Escapes the line breaks in a string, and removes leading zeros of a number: models write both, and Python's
    parser rejects them."""
    return token.group().replace("\n", "\\n").replace("\r", "\\r") if token.group()[0] in QUOTES else ""


def value(node: ast.expr) -> Any:
    """The value of a tree of literals. Raises one of UNREADABLE."""
    if isinstance(node, ast.Constant):  # literal_eval takes five times as long for each
        return node.value
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [value(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        return dict(_member(key, of_key) for key, of_key in zip(node.keys, node.values, strict=True))
    return ast.literal_eval(node)


def _member(key: ast.expr | None, of_key: ast.expr) -> tuple[Any, Any]:
    if key is None:
        raise ValueError("an unpacked dictionary")
    return value(key), value(of_key)
