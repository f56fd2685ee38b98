"""Translates errors of the create request: names of its parameters become those of the chat request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from antiphon_core.errors import AntiphonError
from antiphon_core.jsons import Object

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
"""Whole paths, or prefixes that end in a dot, with their names in chat completions."""


class ErrorTranslator:
    """Translates the parameter that an error names, for one chat request."""

    def __init__(
        self, origins: Sequence[str], *, max_tokens: str, tools: Sequence[str], choice: str | None = None
    ) -> None:
        """`origins`: for each input item the path in the chat request from which it was made. `max_tokens`: the name of
        the token limit that the request uses. `tools`: the types of the tools. `choice`: the type of the tool
        choice."""
        self._origins = origins
        self._max_tokens = max_tokens
        self._tools = tools
        self._choice = choice

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translates the errors that leave the block."""
        try:
            yield
        except AntiphonError as error:
            raise self.translate(error) from error

    def translate(self, error: AntiphonError) -> AntiphonError:
        """Returns the error with the parameter of the chat request, in its field and its message."""
        message, field = self._rename_field(error.message, error.field)
        return error if field == error.field else type(error)(message, field=field, **error.facts)

    def in_envelope(self, error: Object) -> Object:
        """Returns the error of an envelope with the parameter of the chat request, as `translate` does."""
        message, field = self._rename_field(error["message"], error["param"])
        return error | {"message": message, "param": field}

    def _rename_field(self, message: str, field: str | None) -> tuple[str, str | None]:
        """A message about a parameter of the create request, and the parameter, with its name in the chat request."""
        if field is None:
            return message, None
        name = self._path(field)
        return message.replace(f"'{field}", f"'{name}"), name

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
        """The path in a message. Parts of content keep their index; for other members the path is that of the whole."""
        found = re.match(r"\.(?:content|output)((?:\[\d+\])?)", rest)
        return f"{origin}.content{found[1]}" if found and origin.endswith("]") else origin
