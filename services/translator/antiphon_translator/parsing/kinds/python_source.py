"""Splits the source of calls in Python's syntax, and converts their arguments to JSON.

Names of tools and parameters need not be Python's: they may have dashes, or be keywords such as `from`. So the calls
are split here, and Python's own parser reads only the values, of which only literals are accepted.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass
from typing import Any

from antiphon_core import python_syntax
from antiphon_translator.parsing import surrogate_escapes
from antiphon_translator.parsing.json_scan import JsonScan

QUOTES, BRACKETS = "\"'", "()[]{}"

_WORDS = {"true": True, "false": False, "null": None}
_BETWEEN = re.compile(r"(?:[\s,;]|#[^\n]*)*")
_HEAD = re.compile(r"(?P<name>[^\W\d][\w.-]*)\s*\(")
_STRING = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\""""
_PART = re.compile(rf"(?:{_STRING})|[()\[\]{{}}]|(?<![\w.])(?P<key>[^\W\d][\w.-]*)(?=\s*=(?!=))", re.DOTALL)
# Strings, and whole numbers that begin with zeros.
_MISWRITTEN = re.compile(rf"{_STRING}|(?<![\w.])0+(?=\d+\b(?!\.))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PythonSource:
    """One call: the `arguments` are as they are written between the brackets. `json` is the JSON of an object; None:
    the arguments are not all named literals, or the call has no end."""

    name: str
    arguments: str
    json: str | None


def calls_of(source: str) -> list[PythonSource]:
    """The calls in a source such as `f(a=1), g()`. Text between them that separates nothing makes all of it one call
    that cannot be read. Empty: the source does not begin with a call."""
    calls: list[PythonSource] = []
    at = _behind_blanks(source, 0)
    while at < len(source):
        head = _HEAD.match(source, at)
        if head is None:
            return [PythonSource(calls[0].name, _behind_first_head(source), None)] if calls else []
        scan = JsonScan(quotes=QUOTES, brackets=BRACKETS, depth=1)
        end = scan.feed(source, head.end(), ended=True)
        written = source[head.end() : end - 1] if scan.is_done else source[head.end() :]
        calls.append(PythonSource(head["name"], written, _as_json(written) if scan.is_done else None))
        at = _behind_blanks(source, end) if scan.is_done else len(source)
    return calls


def _behind_blanks(source: str, at: int) -> int:
    match = _BETWEEN.match(source, at)
    return match.end() if match is not None else at


def _behind_first_head(source: str) -> str:
    head = _HEAD.search(source)
    return source[head.end() :] if head is not None else source


def _as_json(arguments: str) -> str | None:
    """The JSON of named arguments; None: they are something else."""
    keys: list[str] = []
    try:
        call = _tree(f"f({_with_plain_keys(arguments, keys)}\n)")
        return json.dumps(_members(call, keys), ensure_ascii=False, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def value_of(source: str) -> Any:
    """The value of a literal; None if the source is none."""
    try:
        return _value(_tree(source))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _tree(source: str) -> ast.expr:
    spelt = _MISWRITTEN.sub(_as_python, surrogate_escapes.replaced(source))
    # A control token within a string is a lone surrogate (alphabet.py): Python reads it as an escape.
    readable = spelt.encode("utf-8", "backslashreplace").decode("utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a string is a SyntaxWarning, which helps nobody here
        return python_syntax.expression(readable).body


def _with_plain_keys(arguments: str, keys: list[str]) -> str:
    """Replaces the names of arguments by `a0`, `a1` and so on, and adds them to `keys`."""
    depth = 0

    def spelt(part: re.Match[str]) -> str:
        nonlocal depth
        text = part.group()
        if part["key"] is None:
            depth += (text in BRACKETS[::2]) - (text in BRACKETS[1::2])
            return text
        if depth:
            return text
        keys.append(text)
        return f"a{len(keys) - 1}"

    return _PART.sub(spelt, arguments)


def _as_python(token: re.Match[str]) -> str:
    """Escapes the line breaks in a string, and removes leading zeros of a number: models write both, and Python's
    parser rejects them."""
    return token.group().replace("\n", "\\n").replace("\r", "\\r") if token.group()[0] in QUOTES else ""


def _members(call: ast.expr, keys: list[str]) -> dict[str, Any]:
    if (
        not isinstance(call, ast.Call)
        or call.args
        or [each.arg for each in call.keywords] != [f"a{number}" for number in range(len(keys))]
    ):
        raise ValueError("not only named arguments")
    return {key: _value(each.value) for key, each in zip(keys, call.keywords, strict=True)}


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each) for each in node.elts]
    if isinstance(node, ast.Dict):
        return dict(_member(key, value) for key, value in zip(node.keys, node.values, strict=True))
    return ast.literal_eval(node)


def _member(key: ast.expr | None, value: ast.expr) -> tuple[Any, Any]:
    if key is None:
        raise ValueError("an unpacked dictionary")
    return _value(key), _value(value)
