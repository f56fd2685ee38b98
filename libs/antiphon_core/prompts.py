"""Stored prompts as templates: which variables one has, and what it is with their values.

`{{name}}` in the instructions and in the texts of messages stands for a variable. A text takes its place within the
text; an image or a file becomes a part of its own, between the parts before and behind it. Values are put in once: what
looks like a variable in a value stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.request.prompts import VARIABLE

_PLACE = re.compile(r"\{\{\s*(" + VARIABLE + r")\s*\}\}")
_TEXTS = ("input_text", "output_text", "text")

Value = str | Object


@dataclass(frozen=True, slots=True)
class Rendered:
    """The instructions and messages that a prompt adds to a turn."""

    instructions: str | None = None
    input: Sequence[Object] = ()


def variables_of(content: Object) -> list[str]:
    """The names of the variables of a prompt, in the order in which they come."""
    return list(dict.fromkeys(name for text in _texts_of(content) for name in _PLACE.findall(text)))


def rendered(prompt_id: str, content: Object, values: Mapping[str, Value]) -> Rendered:
    """A prompt with the values of its variables. InvalidRequest: one is missing, one is not in the prompt, or one that
    is no text stands in the instructions."""
    names = variables_of(content)
    for name in names:
        if name not in values:
            raise _fault(name, f"Missing variable '{name}' of prompt '{prompt_id}'.", "missing_required_parameter")
    for name in values:
        if name not in names:
            raise _fault(name, f"Prompt '{prompt_id}' has no variable '{name}'.", "unknown_parameter")
    instructions = content.get("instructions")
    return Rendered(
        None if instructions is None else "".join(_instructed(instructions, values)),
        [_message(message, values) for message in content.get("input", ())],
    )


def _texts_of(content: Object) -> Iterator[str]:
    yield content.get("instructions", "")
    for message in content.get("input", ()):
        given = message["content"]
        for part in [{"type": "text", "text": given}] if isinstance(given, str) else given:
            if part["type"] in _TEXTS:
                yield part["text"]


def _instructed(text: str, values: Mapping[str, Value]) -> Iterator[str]:
    for name, piece in _pieces(text, values):
        if not isinstance(piece, str):
            raise _fault(name, f"Variable '{name}' stands in the instructions, and must be a text.", "invalid_type")
        yield piece


def _message(message: Object, values: Mapping[str, Value]) -> Object:
    given = message["content"]
    if not isinstance(given, str):
        return message | {"content": [piece for part in given for piece in _part(part, values)]}
    pieces = [piece for _, piece in _pieces(given, values)]
    if all(isinstance(piece, str) for piece in pieces):
        return message | {"content": "".join(map(str, pieces))}
    return message | {"content": list(_part({"type": "input_text", "text": given}, values))}


def _part(part: Object, values: Mapping[str, Value]) -> Iterator[Object]:
    """A part of a message with values: the texts between images and files as parts of their own."""
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
    """A text in pieces, each with the name of the variable that it is the value of, or "". Texts are strings."""
    for number, piece in enumerate(_PLACE.split(text)):
        if number % 2 == 0:
            yield "", piece
            continue
        value = values[piece]
        is_text = not isinstance(value, str) and value["type"] == "input_text"
        yield piece, value["text"] if is_text and not isinstance(value, str) else value


def _fault(name: str, message: str, code: str) -> InvalidRequest:
    return InvalidRequest(message, field=f"prompt.variables.{name}", code=code)
