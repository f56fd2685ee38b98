"""Stored prompts as templates: finds their variables and renders them with values.

`{{name}}` in the instructions and in the texts of messages is a variable. A text value replaces it within the text; an
image or a file becomes a part of its own, between the text before it and the text after it. Values are not templates:
`{{name}}` in a value stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.prompts import VARIABLE

_VARIABLE = re.compile(r"\{\{\s*(" + VARIABLE + r")\s*\}\}")
_TEXTS = ("input_text", "output_text", "text")

Value = str | Object


@dataclass(frozen=True, slots=True)
class Rendered:
    """The instructions and messages that a prompt adds to a turn."""

    instructions: str | None = None
    input: Sequence[Object] = ()


def variables_of(content: Object) -> list[str]:
    """The names of a prompt's variables, in the order of their first occurrence."""
    return list(dict.fromkeys(name for text in _texts_of(content) for name in _VARIABLE.findall(text)))


def rendered(prompt_id: str, content: Object, values: Mapping[str, Value]) -> Rendered:
    """Renders a prompt. InvalidRequest: a value is missing, the prompt does not have the variable of a value, or an
    image or a file is the value of a variable in the instructions or in an assistant message."""
    names = variables_of(content)
    for name in names:
        if name not in values:
            raise _fault(name, f"Missing variable '{name}' of prompt '{prompt_id}'.", "missing_required_parameter")
    for name in values:
        if name not in names:
            raise _fault(name, f"Prompt '{prompt_id}' has no variable '{name}'.", "unknown_parameter")
    instructions = content.get("instructions")
    return Rendered(
        None if instructions is None else _text_only(instructions, values, "the instructions"),
        [_message(message, values) for message in content.get("input", ())],
    )


def _texts_of(content: Object) -> Iterator[str]:
    yield content.get("instructions", "")
    for message in content.get("input", ()):
        given = message["content"]
        for part in [{"type": "text", "text": given}] if isinstance(given, str) else given:
            if part["type"] in _TEXTS:
                yield part["text"]


def _text_only(text: str, values: Mapping[str, Value], place: str) -> str:
    """Renders a text in a place that cannot have images or files."""
    rendered_text = ""
    for name, piece in _pieces(text, values):
        if not isinstance(piece, str):
            raise _fault(name, f"Variable '{name}' is used in {place}, and must be a text.", "invalid_type")
        rendered_text += piece
    return rendered_text


def _message(message: Object, values: Mapping[str, Value]) -> Object:
    given = message["content"]
    if message["role"] == "assistant":
        for text in _texts_of({"input": [message]}):
            _text_only(text, values, "an assistant message")
    if not isinstance(given, str):
        return message | {"content": [piece for part in given for piece in _part(part, values)]}
    pieces = [piece for _, piece in _pieces(given, values)]
    if all(isinstance(piece, str) for piece in pieces):
        return message | {"content": "".join(map(str, pieces))}
    return message | {"content": list(_part({"type": "input_text", "text": given}, values))}


def _part(part: Object, values: Mapping[str, Value]) -> Iterator[Object]:
    """Renders one part of a message. Images and files split its text into several parts."""
    if part["type"] not in _TEXTS:
        yield part
        return
    text = ""
    for _, piece in _pieces(part["text"], values):
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield part | {"text": text}
        yield piece
        text = ""
    if text or not part["text"]:
        yield part | {"text": text}


def _pieces(text: str, values: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """Splits a text into literal pieces and values of variables: ("", text) or (variable, value). Text values are
    strings, others JSON objects."""
    for number, piece in enumerate(_VARIABLE.split(text)):
        if number % 2 == 0:
            yield "", piece
            continue
        value = values[piece]
        is_text = not isinstance(value, str) and value["type"] == "input_text"
        yield piece, value["text"] if is_text and not isinstance(value, str) else value


def _fault(name: str, message: str, code: str) -> InvalidRequest:
    return InvalidRequest(message, field=f"prompt.variables.{name}", code=code)
