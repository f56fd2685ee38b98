"""The arguments of an engine in model.yaml: one a line, `name: value`, each value in JSON, which is YAML as well.

Python has no reader of YAML, and not every image has one. A value in JSON needs none, and no guess at its type.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from antiphon_tokens.engine import LoadError

FILE = "model.yaml"


def to_text(arguments: Mapping[str, Any], comment: str) -> str:
    """The text of model.yaml, with a comment above the arguments."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items()]
    return "\n".join([*lines, ""])


def read(path: Path) -> dict[str, Any]:
    """The arguments in a file. LoadError: it cannot be read, and why."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}.") from error
    arguments: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, value = parse_line(line, f"{path}:{number}")
            if name in arguments:
                _refuse(f"{path}:{number}", f"{name} is set twice")
            arguments[name] = value
    return arguments


def parse_line(line: str, place: str) -> tuple[str, Any]:
    """One `name: value`. LoadError: it has another form; `place` says where."""
    name, colon, value = line.partition(":")
    if not colon or not name.strip().isidentifier():
        _refuse(place, "expected `name: value`")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        _refuse(place, f'the value of {name.strip()} must be JSON on one line, such as 8, true or "text"')


def _refuse(place: str, reason: str) -> NoReturn:
    raise LoadError(f"{place}: {reason}.")


class Arguments:
    """Takes an engine's own arguments out of those of model.yaml. What is left goes to the library of the engine."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._left = dict(given)

    def number(self, name: str, default: int) -> int:
        found = self._left.pop(name, default)
        if type(found) is not int or found <= 0:
            raise LoadError(f"{FILE}: {name} must be a positive number, and is {found!r}.")
        return found

    def text(self, name: str) -> str:
        found = self._left.pop(name, None)
        if not isinstance(found, str) or not found:
            raise LoadError(f"{FILE}: {name} must be a text, and is {found!r}.")
        return found

    def adapters(self, name: str) -> dict[int, str]:
        """LoRA adapters: the path of each by its number."""
        found = self._left.pop(name, {})
        if not isinstance(found, dict) or not all(
            key.isdecimal() and isinstance(path, str) for key, path in found.items()
        ):
            raise LoadError(f'{FILE}: {name} must be like {{"7": "/adapters/seven"}}, and is {found!r}.')
        return {int(key): path for key, path in found.items()}

    def rest(self) -> dict[str, Any]:
        return self._left

    def require_none_left(self, engine: str) -> None:
        if self._left:
            raise LoadError(f"{FILE}: the engine {engine} has no argument {next(iter(self._left))!r}.")
