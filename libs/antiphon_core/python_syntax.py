"""Python's own parser, used by one thread at a time.

CPython 3.11 keeps the depth of all parses of a process in one variable, so two threads that parse at the same time get
a SystemError (cpython issue 106905).
"""

from __future__ import annotations

import ast
import threading
from typing import Any

_PARSER = threading.Lock()


def module(source: str) -> ast.Module:
    """The tree of a module. Raises the errors of `ast.parse`."""
    with _PARSER:
        return ast.parse(source)


def expression(source: str) -> ast.Expression:
    """The tree of an expression. Raises the errors of `ast.parse`."""
    with _PARSER:
        return ast.parse(source, mode="eval")


def literal(source: str) -> Any:
    """The value of a literal, such as `"a\\n"` or `[1, 2]`. Raises the errors of `ast.literal_eval`."""
    return ast.literal_eval(expression(source.lstrip(" \t")))
