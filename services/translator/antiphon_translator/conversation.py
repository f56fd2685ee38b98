"""From items to a conversation: what the model is to read, before any template has seen it.

Every item is used or refused. A refusal names its place in the request (`input[3].content[0]`), so that nothing a
caller wrote is dropped in silence. This module knows no template and no tokenizer; what a model can be shown is a
matter of the kinds of items and parts listed here.

The `instructions` of the request become the first message, a system message; those of earlier turns are not part of
history, so they are never inherited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, kind

T = TypeVar("T")

ROLES = ("system", "developer", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Message:
    """One message: who speaks, and the text of each of its parts."""

    role: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The message as one text, one line break between two parts."""
        return "\n".join(self.parts)


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that the model is to read, in order."""

    messages: tuple[Message, ...]

    def map_text(self, change: Callable[[str], str]) -> Conversation:
        """The same conversation with every text in it changed: all that did not come from the operator."""
        return Conversation(
            tuple(replace(one, parts=tuple(change(part) for part in one.parts)) for one in self.messages)
        )


def build(*, instructions: str | None, history: Sequence[Any], given: Sequence[Any]) -> Conversation:
    """The conversation of one turn. `given` is the turn's own input.

    InvalidRequest: an item or a part that cannot be shown to the model, with its path; or nothing to read at all.
    """
    messages = [Message("system", (instructions,))] if instructions else []
    messages += _read_items(history, "history")
    messages += _read_items(given, "input")
    if not messages:
        raise InvalidRequest("There is nothing to answer: the input is empty.", field="input", code="empty_array")
    return Conversation(tuple(messages))


def _read_items(items: Sequence[Any], where: str) -> Iterator[Message]:
    for index, item in enumerate(items):
        path = f"{where}[{index}]"
        yield _reader(_ITEM_READERS, item, path, default="message")(item, path)


def _read_message(item: Object, path: str) -> Message:
    role = item.get("role")
    if role not in ROLES:
        raise _unsupported(f"{path}.role", f"A message's role must be one of {', '.join(ROLES)}, not {role!r}.")
    content = item.get("content")
    if isinstance(content, str):
        return Message(role, (content,))
    if not isinstance(content, list):
        raise _mistyped(f"{path}.content", content, "a string or an array")
    return Message(role, tuple(_read_part(part, f"{path}.content[{n}]") for n, part in enumerate(content)))


def _read_part(part: Any, path: str) -> str:
    member = _reader(_PART_TEXT, part, path, default=None)
    text = part.get(member)
    if not isinstance(text, str):
        raise _mistyped(f"{path}.{member}", text, "a string")
    return text


_ITEM_READERS: Mapping[str, Callable[[Object, str], Message]] = {"message": _read_message}
"""How each type of item is read."""

_PART_TEXT: Mapping[str, str] = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Where each type of content part has its text."""


def _reader(table: Mapping[str, T], value: Any, path: str, *, default: str | None) -> T:
    """The row of a table for an item's or a part's type."""
    if not isinstance(value, dict):
        raise _mistyped(path, value, "an object")
    given = value.get("type", default)
    if not isinstance(given, str) or given not in table:
        raise _unsupported(path, f"'{path}' has the type {given!r}, which this model cannot be given.")
    return table[given]


def _unsupported(path: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, field=path, code="unsupported_value")


def _mistyped(path: str, value: object, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"'{path}' must be {wanted}, but is {kind(value)}.", field=path, code="invalid_type")
