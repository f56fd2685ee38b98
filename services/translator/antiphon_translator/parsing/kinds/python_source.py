"""Splits the source of calls in Python's syntax, and converts their arguments to JSON.

Names of tools and parameters need not be Python's: they may have dashes, or be keywords such as `from`. So the calls
are split here, and Python's own parser reads only the values, of which only literals are accepted.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import Any

from antiphon_translator.parsing import python_literals
from antiphon_translator.parsing.json_scan import JsonScan
from antiphon_translator.parsing.python_literals import QUOTES, STRING, UNREADABLE

BRACKETS = "()[]{}"

_BETWEEN = re.compile(r"(?:[\s,;]|#[^\n]*)*")
_HEAD = re.compile(r"(?P<name>[^\W\d][\w.-]*)\s*\(")
_PART = re.compile(rf"(?:{STRING})|[()\[\]{{}}]|(?<![\w.-])(?P<key>[^\W\d][\w.-]*+)(?=\s*+=(?!=))", re.DOTALL)


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
        call = python_literals.tree(f"f({_with_plain_keys(arguments, keys)}\n)")
        return json.dumps(_members(call, keys), ensure_ascii=False, allow_nan=False)
    except UNREADABLE:
        return None


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


def _members(call: ast.expr, keys: list[str]) -> dict[str, Any]:
    if (
        not isinstance(call, ast.Call)
        or call.args
        or [each.arg for each in call.keywords] != [f"a{number}" for number in range(len(keys))]
    ):
        raise ValueError("not only named arguments")
    return {key: python_literals.value(each.value) for key, each in zip(keys, call.keywords, strict=True)}
