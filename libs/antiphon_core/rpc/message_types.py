"""Messages in their two classes: betterproto2's to work with, and protobuf's own, which reads and writes the bytes.

betterproto2's runtime is left out: it accepts truncated and mistyped bytes in silence and needs 15-70 microseconds for
a message (docs/adr/0055-hot-messages-as-protobuf.md). A `MessageType` copies the fields between the two classes in 2-7
microseconds instead.

Where no handler is written by hand, or a message is sent for each batch of tokens, there is nothing to copy for: the
store's table and the wire modules of hot messages work with protobuf's class (`STRICT`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message_factory import GetMessageClass

from antiphon_protos.message_pool import default_message_pool

STRICT = ("antiphon.store.", "antiphon.translator.v1.GenerateResponse")
"""How the full names of the messages begin that arrive as protobuf's class. They may be sent as either class."""

_Read = Callable[[Any], Any]


class MessageType:
    """One message: `message` is the class to work with, `strict` is protobuf's; they are the same for a strict message.

    `parts` are the fields that hold messages: name, type, and whether the field is repeated.
    """

    __slots__ = ("_from_strict", "_generated", "_to_strict", "message", "name", "parts", "strict")

    def __init__(self, descriptor: Descriptor) -> None:
        self.name: str = descriptor.name
        self.strict: type[Any] = GetMessageClass(descriptor)
        self._generated = _generated_class(descriptor)
        self.message: type[Any] = self.strict if descriptor.full_name.startswith(STRICT) else self._generated
        self.parts = tuple(
            (field.name, message_type(field.message_type), field.is_repeated)
            for field in descriptor.fields
            if field.message_type is not None
        )
        types = {name: part for name, part, _repeated in self.parts}
        self._from_strict = {field.name: _reader(field, types.get(field.name)) for field in descriptor.fields}
        self._to_strict = {field.name: _writer(field, types.get(field.name)) for field in descriptor.fields}

    def from_strict(self, strict: Any) -> Any:
        """The message to work with, as a copy of protobuf's."""
        if self.message is self.strict:
            return strict
        return self.message(**{name: read(strict) for name, read in self._from_strict.items()})

    def to_strict(self, message: Any) -> Any:
        """Protobuf's message. ValueError, TypeError: a field has a value that the wire cannot carry."""
        if type(message) is self.strict:
            return message
        if type(message) is not self._generated:
            raise TypeError(f"{self.name} is sent as a {self.message}, not a {type(message)}.")
        return self.strict(**self.values(message))

    def values(self, message: Any) -> dict[str, Any]:
        """The fields of betterproto2's message, as protobuf's constructor takes them."""
        return {name: read(message) for name, read in self._to_strict.items()}


@cache
def message_type(descriptor: Descriptor) -> MessageType:
    """The one type of a message. KeyError: betterproto2 generated no class for it, as for the entries of a map."""
    return MessageType(descriptor)


def _generated_class(descriptor: Descriptor) -> type[Any]:
    return default_message_pool.url_to_type[f"type.googleapis.com/{descriptor.full_name}"]


def _reader(field: Any, part: MessageType | None) -> _Read:
    """Reads a field of protobuf's message as what betterproto2's has there: lists, enums, None for what is absent."""
    if part is not None:
        convert: _Read | None = part.from_strict
    else:
        convert = _enum_class(field) if field.enum_type is not None else None
    get, name = attrgetter(field.name), field.name
    if field.is_repeated:
        return (lambda strict: [convert(each) for each in get(strict)]) if convert else lambda strict: list(get(strict))
    read: _Read = (lambda strict: convert(get(strict))) if convert else get
    return (lambda strict: read(strict) if strict.HasField(name) else None) if field.has_presence else read


def _writer(field: Any, part: MessageType | None) -> _Read:
    """Reads a field of betterproto2's message as what protobuf's constructor takes: a dict for a message."""
    get = attrgetter(field.name)
    if part is None:
        return get
    values = part.values
    if field.is_repeated:
        return lambda message: [values(each) for each in get(message)]
    return lambda message: None if (inner := get(message)) is None else values(inner)


def _enum_class(field: Any) -> Callable[[int], Any]:
    module = sys.modules[_generated_class(field.containing_type).__module__]
    found: Callable[[int], Any] = getattr(module, field.enum_type.name)
    return found
