"""Names of parameters in errors: the parameters of chat completions in place of those of a create request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from antiphon_core.errors import AntiphonError

_ITEM = re.compile(r"input\[(\d+)\](.*)", re.DOTALL)
_TOOL = re.compile(r"tools\[(\d+)\]\.(?!type\b)(.*)", re.DOTALL)
_GRAMMAR = re.compile(r"format\.(syntax|definition)")
_RENAMED = (
    ("input", "messages"),
    ("text.format.type", "response_format.type"),
    ("text.format.", "response_format.json_schema."),
    ("text.format", "response_format"),
    ("text.verbosity", "verbosity"),
    ("reasoning.effort", "reasoning_effort"),
    ("include", "logprobs"),
)
"""By how a path begins; one that ends in a dot stands for all that is below."""


class Culprits:
    """The names of one request."""

    def __init__(
        self, origins: Sequence[str], *, max_tokens: str, tools: Sequence[str], choice: str | None = None
    ) -> None:
        """`origins` are the paths of what the items of the input were made of, `tools` the types of the tools, and
        `choice` that of the choice among them, if it has one."""
        self._origins = origins
        self._max_tokens = max_tokens
        self._tools = tools
        self._choice = choice

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors that leave it tell the caller's names."""
        try:
            yield
        except AntiphonError as error:
            raise self.translate(error) from error

    def translate(self, error: AntiphonError) -> AntiphonError:
        """Returns the error with the caller's name for its culprit."""
        if error.field is None:
            return error
        field = self._path(error.field)
        if field == error.field:
            return error
        message = error.message.replace(f"'{error.field}", f"'{field}")
        return type(error)(message, field=field, **error.facts)

    def _path(self, path: str) -> str:
        if (match := _ITEM.fullmatch(path)) and int(match[1]) < len(self._origins):
            return self._in_message(self._origins[int(match[1])], match[2])
        if (match := _TOOL.fullmatch(path)) and int(match[1]) < len(self._tools):
            inner = _GRAMMAR.sub(r"format.grammar.\1", match[2])
            return f"tools[{match[1]}].{self._tools[int(match[1])]}.{inner}"
        if path == "max_output_tokens":
            return self._max_tokens
        if self._choice is not None and (inner := path.removeprefix("tool_choice.")) != path:
            return f"tool_choice.{self._choice}.{inner}"
        for begins, name in _RENAMED:
            if path == begins or (begins.endswith(".") and path.startswith(begins)):
                return name + path[len(begins) :]
        return path

    @staticmethod
    def _in_message(origin: str, rest: str) -> str:
        """Content has the same parts in the same order; of the others the whole is named."""
        found = re.match(r"\.(?:content|output)((?:\[\d+\])?)", rest)
        return f"{origin}.content{found[1]}" if found and origin.endswith("]") else origin
