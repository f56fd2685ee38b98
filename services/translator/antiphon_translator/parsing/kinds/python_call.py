"""Calls in Python's syntax, as Llama 4, LFM2 and Olmo 3 write them: `[f(a=1), g()]`, or one call in each line.

The source of all calls is collected to its end and parsed by Python's own parser. Only literals are evaluated.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from antiphon_core import python_syntax
from antiphon_translator.parsing import surrogate_escapes
from antiphon_translator.parsing.cursor import Emit, Malformed, Reader
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.reading import Reading

_WORDS = {"true": True, "false": False, "null": None}


# Strings, and whole numbers that begin with zeros.
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w.])0+(?=\d+\b(?!\.))""", re.DOTALL)


@dataclass(frozen=True)
class PythonCall:
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    is_list: bool = True
    """Whether the calls are a list; otherwise each stands in a line of its own."""

    def read(self, reading: Reading) -> Reader[None]:
        """Emits all calls at the end of the last one. Calls that are too long to be given back are never shown as text:
        if they cannot be parsed, they are dropped."""
        cursor = reading.cursor
        yield from cursor.spaces()
        opener = "[" if self.is_list and (yield from cursor.literal("[")) else ""
        yield from cursor.spaces()
        name = yield from cursor.word()
        yield from cursor.spaces()
        if bool(opener) is not self.is_list or not reading.can_call(name) or (yield from cursor.peek()) != "(":
            raise Malformed
        written = [f"{opener}{name}"]
        cursor.loosen_mark()
        is_whole = yield from self._rest(reading, written.append)
        cursor.tighten_mark()
        source = "".join(written)
        try:
            if not is_whole:
                raise Malformed
            calls = calls_of(ast.Expression if self.is_list else ast.Module, source)
        except Malformed:
            if not cursor.is_marked:
                reading.out.drop(source)
            raise
        for call in calls:
            _write(reading, *call)

    def _rest(self, reading: Reading, keep: Emit) -> Reader[bool]:
        """Reads on from the bracket of the first call. Returns whether the end of the calls came."""
        if not self.is_list:
            found = yield from reading.cursor.until(self._close, keep)
            reading.cursor.back(found or "")
            return found is not None
        return (yield from reading.cursor.python_list(keep, depth=1))

    @cached_property
    def _close(self) -> Markers:
        return Markers(self.close)


def _as_python(token: re.Match[str]) -> str:
    """Escapes the line breaks in a string, and removes leading zeros of a number: models write both, and Python's
    parser rejects them."""
    return token.group().replace("\n", "\\n").replace("\r", "\\r") if token.group()[0] in "\"'" else ""


def calls_of(kind: type[ast.Module] | type[ast.Expression], source: str) -> list[tuple[str, str]]:
    """The names and arguments of the calls in `source`. Malformed: one of them cannot be read, or there are none."""
    try:
        spelt = _TOKEN.sub(_as_python, surrogate_escapes.replaced(source.strip()))
        # A control token within a string is a lone surrogate (alphabet.py): Python reads it as an escape.
        readable = spelt.encode("utf-8", "backslashreplace").decode("utf-8")
        calls = [_call(node) for node in _nodes(kind, readable)]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise Malformed from error
    if not calls:
        raise Malformed
    return calls


def _nodes(kind: type[ast.Module] | type[ast.Expression], source: str) -> list[ast.expr]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a string is a SyntaxWarning, which helps nobody here
        if kind is ast.Expression:
            return _elements(python_syntax.expression(source).body)
        return [_expression(each) for each in python_syntax.module(source).body]


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
