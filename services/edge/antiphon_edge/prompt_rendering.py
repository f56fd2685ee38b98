"""Stored prompts as templates: finds their variables and renders them with values.

`{{name}}` in the instructions and in the texts of messages is a variable. A text value replaces it within the text; an
image or a file becomes a part of its own, between the text before it and the text after it. Values are not templates:
`{{name}}` in a value stays as it is. A prompt may use a variable many times, so a small prompt and a value of a
megabyte could fill the memory of the process: the size of the result is limited before anything is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.limits import BODY_BYTES_MAX
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


def render(prompt_id: str, content: Object, values: Mapping[str, Value]) -> Rendered:
    """Renders a prompt. InvalidRequest: a value is missing, the prompt does not have the variable of a value, an image
    or a file is the value of a variable in the instructions or in an assistant message, or the values take more than
    BODY_BYTES_MAX."""
    names = variables_of(content)
    for name in names:
        if name not in values:
            raise _fault(name, f"Missing variable '{name}' of prompt '{prompt_id}'.", "missing_required_parameter")
    for name in values:
        if name not in names:
            raise _fault(name, f"Prompt '{prompt_id}' has no variable '{name}'.", "unknown_parameter")
    _require_room(prompt_id, content, values)
    instructions = content.get("instructions")
    return Rendered(
        None if instructions is None else _text_only(instructions, values, "the instructions"),
        [_message(message, values) for message in content.get("input", ())],
    )


def rendered_bytes_max(content: bytes, values: Mapping[str, Value]) -> int:
    """The upper bound of the size of a rendered prompt, estimated without parsing `content`, its JSON. Around each
    image or file, the members of the part that it splits are repeated."""
    longest = max((len(dumps(value)) for value in values.values()), default=0)
    repeated = 0 if all(map(_is_text, values.values())) else len(content)
    return len(content) + content.count(b"{{") * (longest + repeated)


def _require_room(prompt_id: str, content: Object, values: Mapping[str, Value]) -> None:
    sizes = {name: len(dumps(value)) for name, value in values.items()}
    size_bytes = 0
    for part in _text_parts_of(content):
        repeated = len(dumps(part | {"text": ""}))
        size_bytes += sum(sizes[name] + repeated for name in _VARIABLE.findall(part["text"]))
    if size_bytes > BODY_BYTES_MAX:
        raise InvalidRequest(
            f"Prompt '{prompt_id}' with its values has more than {BODY_BYTES_MAX} bytes.",
            field="prompt.variables",
            code="string_above_max_length",
        )


def _texts_of(content: Object) -> Iterator[str]:
    return (part["text"] for part in _text_parts_of(content))


def _text_parts_of(content: Object) -> Iterator[Object]:
    """The parts that have variables: of the instructions, and of messages in full or in the short form."""
    yield {"type": "text", "text": content.get("instructions", "")}
    for message in content.get("input", ()):
        given = message["content"]
        for part in [{"type": "text", "text": given}] if isinstance(given, str) else given:
            if part["type"] in _TEXTS:
                yield part


def _is_text(value: Value) -> bool:
    return isinstance(value, str) or value["type"] == "input_text"


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
        yield piece, value["text"] if not isinstance(value, str) and _is_text(value) else value


def _fault(name: str, message: str, code: str) -> InvalidRequest:
    return InvalidRequest(message, field=f"prompt.variables.{name}", code=code)
