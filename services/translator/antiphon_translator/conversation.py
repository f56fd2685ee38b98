"""A turn's conversation before any template renders it: messages, calls, their results and tools.

This module holds values only; `conversation_items` makes them from items. `map_text` changes every text in them, so
that a template can be rendered with control tokens disguised (templates/control_tokens.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from antiphon_core.jsons import Object

ROLES = ("system", "developer", "user", "assistant")

T = TypeVar("T")

_Make = Callable[["Message"], Any]

_SCHEMA_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model made. `name` is the tool's name as the prompt shows it to the model. `model_id` is the
    id that the prompt shows in place of `id`: the model's own, or one in its form (prompt/rounds.py)."""

    id: str
    name: str
    arguments: Object
    model_id: str = ""

    @property
    def prompt_id(self) -> str:
        return self.model_id or self.id


@dataclass(frozen=True, slots=True)
class Image:
    """An undecoded image. `kind` is png, jpeg, gif or webp. `detail` is the member of that name in the request; empty
    if there is none."""

    content: bytes = field(repr=False)
    kind: str
    width: int
    height: int
    detail: str = ""


class Message(NamedTuple):  # made once for every message of every turn: three times as fast as a dataclass
    """One message: the role of its speaker, and its parts, each a text or an image.

    An assistant message may have `reasoning` before its text and `calls` behind it; with `is_commentary` its text is
    not the final answer. Only a message of the role `tool` has a `call_id`, of the call whose result it is. Its `name`
    is that of the called tool; the `name` of any other message is its speaker's, if the client gave one.
    """

    role: str
    parts: tuple[str | Image, ...] = ()
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    name: str = ""
    is_commentary: bool = False

    @property
    def text(self) -> str:
        """All text parts, joined by line breaks. Images are left out."""
        parts = self.parts
        if len(parts) == 1 and isinstance(parts[0], str):
            return parts[0]
        return "\n".join(part for part in self.parts if isinstance(part, str))

    def texts(self) -> Iterator[str]:
        """Yields every text of the message, also those in calls and their keys."""
        for part in self.parts:
            if isinstance(part, str):
                yield part
        if self.reasoning:
            yield self.reasoning
        if self.name:
            yield self.name
        if self.call_id:
            yield self.call_id
        for call in self.calls:
            yield from (call.id, call.name, *_strings(call.arguments))

    @property
    def images(self) -> list[Image]:
        return [part for part in self.parts if isinstance(part, Image)]


class KnownMessages:
    """Messages that several turns of a chat have in common, with cached results of functions of each message. Safe to
    use from several threads."""

    def __init__(self, messages: Sequence[Message] = (), made: Mapping[_Make, tuple[Any, ...]] | None = None) -> None:
        """`made` has the cached results of each function, for the first messages or for all."""
        self.messages = tuple(messages)
        self._made = dict(made or {})

    def followed_by(self, messages: Sequence[Message]) -> KnownMessages:
        """These messages and more, with the cached results."""
        return KnownMessages((*self.messages, *messages), self._made)

    def each(self, make: Callable[[Message], T]) -> tuple[T, ...]:
        """Applies `make` to each message, or takes the cached result, which must depend on the message alone and must
        not be changed."""
        made = self._made.get(make, ())
        if len(made) < len(self.messages):
            made = self._made[make] = (*made, *map(make, self.messages[len(made) :]))
        return made


NO_MESSAGES = KnownMessages()


def _keep_text(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Conversation:
    """The input of the model. `tools` are functions in the form that chat templates expect. With `continues_last` the
    model continues the last message instead of beginning one.

    `known` are the messages from index `known_from` on that earlier turns had, too."""

    messages: tuple[Message, ...]
    tools: tuple[Object, ...] = ()
    continues_last: bool = False
    known: KnownMessages = field(default=NO_MESSAGES, compare=False, repr=False)
    known_from: int = field(default=0, compare=False, repr=False)

    @property
    def images(self) -> tuple[Image, ...]:
        """All images, in the order in which the model reads them."""
        return tuple(image for images in self.each(_message_images) for image in images)

    def each(self, make: Callable[[Message], T]) -> list[T]:
        """Applies `make` to each message, with the cached results of known messages (KnownMessages.each)."""
        if self.known is NO_MESSAGES:
            return [*map(make, self.messages)]
        known = self.known.each(make)
        first, rest = self.messages[: self.known_from], self.messages[self.known_from + len(known) :]
        return [*map(make, first), *known, *map(make, rest)]

    def with_messages(self, messages: tuple[Message, ...]) -> Conversation:
        """Copies the conversation with other messages, none of them known."""
        return replace(self, messages=messages, known=NO_MESSAGES, known_from=0)

    def map_text(self, change: Callable[[str], str], change_key: Callable[[str], str] = _keep_text) -> Conversation:
        """Copies the conversation with `change` applied to every text except the names of JSON types, and `change_key`
        to every key of an object. Templates look values up by key, so `change_key` must keep the keys that they know,
        and map two keys to two."""
        changed = self.with_messages(tuple(_map_message(message, change, change_key) for message in self.messages))
        return replace(changed, tools=tuple(_change_texts(tool, change, change_key) for tool in self.tools))

    def texts(self) -> Iterator[str]:
        """Yields every text of the conversation, keys of objects included."""
        for message in self.messages:
            yield from message.texts()
        yield from self.tool_texts()

    def tool_texts(self) -> Iterator[str]:
        """Yields every text of the tools, keys of objects included."""
        for tool in self.tools:
            yield from _strings(tool)

    def object_keys(self) -> Iterator[str]:
        """Yields the keys of all objects."""
        for keys in self.each(_message_keys):
            yield from keys
        for tool in self.tools:
            yield from _keys(tool)


def _map_message(message: Message, change: Callable[[str], str], change_key: Callable[[str], str]) -> Message:
    role, parts, reasoning, calls, call_id, name, is_commentary = message
    parts = tuple([change(part) if isinstance(part, str) else part for part in parts])
    if not (reasoning or calls or name or call_id):
        return Message(role, parts, is_commentary=is_commentary)
    calls = tuple(
        Call(change(call.id), change(call.name), _change_texts(call.arguments, change, change_key)) for call in calls
    )
    return Message(role, parts, change(reasoning), calls, change(call_id), change(name), is_commentary)


def _change_texts(value: Any, change: Callable[[str], str], change_key: Callable[[str], str]) -> Any:
    match value:
        case str():
            return value if value in _SCHEMA_TYPES else change(value)
        case list():
            return [_change_texts(each, change, change_key) for each in value]
        case Mapping():
            return {change_key(key): _change_texts(each, change, change_key) for key, each in value.items()}
    return value


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _strings(each)
        case Mapping():
            for key, each in value.items():
                yield key
                yield from _strings(each)


def _message_images(message: Message) -> list[Image]:
    return message.images


def _message_keys(message: Message) -> tuple[str, ...]:
    return tuple(key for call in message.calls for key in _keys(call.arguments))


def _keys(value: Any) -> Iterator[str]:
    match value:
        case list():
            for each in value:
                yield from _keys(each)
        case Mapping():
            for key, each in value.items():
                yield key
                yield from _keys(each)
