"""The tools of a terminal conversation: the public functions of a Python file that the user names with --tools.

The name, the docstring and the annotations of a function define its tool. Pydantic makes the schema of the arguments,
and validates the model's arguments.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

from antiphon_core.config import SettingsError
from antiphon_core.jsons import Object, loads


class OwnTools:
    """The functions of a file, and their definitions as tools."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._functions = dict(functions or {})
        self.definitions = [_definition(name, function) for name, function in self._functions.items()]

    @classmethod
    def of(cls, path: Path) -> OwnTools:
        """Runs the file and takes its functions. SettingsError: it cannot be run, or a function cannot be a tool."""
        spec = importlib.util.spec_from_file_location("own_tools", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise SettingsError(f"--tools must name a Python file; {path} is none.")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # a user's own code
            raise SettingsError(f"{path}: {type(error).__name__}: {error}") from error
        return cls(
            {
                name: value
                for name, value in vars(module).items()
                if inspect.isfunction(value) and value.__module__ == "own_tools" and not name.startswith("_")
            }
        )

    def call(self, name: str, arguments: str) -> str:
        """Calls a function, and returns the result as text for the model. An error is returned as text, too, so that
        the model can correct its call."""
        function = self._functions.get(name)
        if function is None:
            return f"There is no tool '{name}'."
        try:
            result = validate_call(function)(**loads(arguments.encode() or b"{}"))
            return result if isinstance(result, str) else to_json(result, fallback=str).decode()
        except PydanticSerializationError as error:
            return f"The tool failed: its result cannot be written as JSON: {error}"
        except (ValidationError, ValueError, TypeError) as error:
            return f"The arguments do not fit: {error}"
        except Exception as error:  # noqa: BLE001 - a user's own code
            return f"The tool failed: {type(error).__name__}: {error}"


def _definition(name: str, function: Callable[..., Any]) -> Object:
    if inspect.iscoroutinefunction(function):
        raise SettingsError(f"The function '{name}' cannot be a tool: it is asynchronous.")
    try:
        schema = TypeAdapter(cast(Any, function)).json_schema()
    except PydanticUserError as error:
        raise SettingsError(f"The function '{name}' cannot be a tool: {error.message}") from error
    description = inspect.getdoc(function)
    return {"type": "function", "name": name, "parameters": schema} | (
        {"description": description} if description else {}
    )
