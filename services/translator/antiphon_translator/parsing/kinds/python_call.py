"""Calls as Python writes them, `[f(a=1), g()]` or one in a line, as Llama 4, LFM2 and Olmo 3 do.

They are read whole and taken apart by Python's own parser; nothing is evaluated but literals.
"""

from __future__ import annotations

import ast
import json
import warnings
from dataclasses import dataclass
from typing import Any

from antiphon_translator.parsing.cursor import Markers, Reader
from antiphon_translator.parsing.reading import Malformed, Reading

_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class PythonCall:
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    is_list: bool = True
    """A list of calls; otherwise one call in each line."""

    def read(self, reading: Reading) -> Reader[None]:
        if self.is_list:
            yield from self.read_list(reading)
            yield from reading.cursor.spaces()
            yield from reading.cursor.one_of(self.close)
            return
        written: list[str] = []
        if (yield from reading.cursor.until(Markers(self.close), written.append)) is None:
            raise Malformed
        for call in calls_of(ast.Module, "".join(written)):
            _write(reading, *call)

    def read_list(self, reading: Reading) -> Reader[None]:
        """A list of calls, to its closing bracket. Malformed."""
        written: list[str] = []
        yield from reading.cursor.spaces()
        if (yield from reading.cursor.peek()) != "[":
            raise Malformed
        if not (yield from reading.cursor.python_list(written.append)):
            raise Malformed
        for call in calls_of(ast.Expression, "".join(written)):
            _write(reading, *call)


def calls_of(kind: type[ast.Module] | type[ast.Expression], source: str) -> list[tuple[str, str]]:
    """Names and arguments of the calls, all or none. Malformed."""
    try:
        # A control token within a string is a lone surrogate (alphabet.py): Python reads it as an escape.
        spelt = source.strip().encode("utf-8", "backslashreplace").decode("utf-8")
        calls = [_call(node) for node in _nodes(kind, spelt)]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise Malformed from error
    if not calls:
        raise Malformed
    return calls


def _nodes(kind: type[ast.Module] | type[ast.Expression], source: str) -> list[ast.expr]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a string is no error, and nobody wants to read of it
        if kind is ast.Expression:
            return _elements(ast.parse(source, mode="eval").body)
        return [_expression(each) for each in ast.parse(source).body]


def _elements(node: ast.expr) -> list[ast.expr]:
    if not isinstance(node, ast.List):
        raise ValueError("not a list")
    return node.elts


def _expression(node: ast.stmt) -> ast.expr:
    if not isinstance(node, ast.Expr):
        raise ValueError("not an expression")
    return node.value


def _call(node: ast.expr) -> tuple[str, str]:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a call with named arguments")
    arguments = {each.arg: _value(each.value) for each in node.keywords}
    return ast.unparse(node.func), json.dumps(arguments, ensure_ascii=False)


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    return ast.literal_eval(node)


def _write(reading: Reading, name: str, arguments: str) -> None:
    reading.begin_call(name)
    reading.out.arguments(arguments)
    reading.out.end_call()
