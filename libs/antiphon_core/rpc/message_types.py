"""The two classes of each message: betterproto2's for handlers, and protobuf's own for serialization.

betterproto2's own serialization is not used: it accepts truncated and mistyped bytes silently and takes 15-70
microseconds for a message (docs/adr/0055-hot-messages-as-protobuf.md). A `MessageType` copies the fields between the
two classes in 2-7 microseconds instead.

The messages of the store, which a table translates, and the message that is sent for each batch of tokens are not
copied: code works with protobuf's class of them (`STRICT`).
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
"""Prefixes of the full names of messages that are received as protobuf's class. They may be sent as either class."""

_Read = Callable[[Any], Any]


class MessageType:
    """The type of a message. `message` is the class that handlers get, `strict` is protobuf's; for messages in STRICT
    both are the same.

    `parts` are the fields with messages: name, type, and whether the field is repeated.
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
        """Copies protobuf's message to the class that handlers get."""
        if self.message is self.strict:
            return strict
        return self.message(**{name: read(strict) for name, read in self._from_strict.items()})

    def to_strict(self, message: Any) -> Any:
        """Copies a message to protobuf's class. ValueError, TypeError: a field has a value that its type cannot
        represent."""
        if type(message) is self.strict:
            return message
        if type(message) is not self._generated:
            raise TypeError(f"{self.name} is sent as a {self.message}, not a {type(message)}.")
        return self.strict(**self.values(message))

    def values(self, message: Any) -> dict[str, Any]:
        """The fields of betterproto2's message, as arguments of protobuf's constructor."""
        return {name: read(message) for name, read in self._to_strict.items()}


@cache
def message_type(descriptor: Descriptor) -> MessageType:
    """The MessageType of a message, of which there is one. KeyError: betterproto2 generated no class for the message,
    such as for the entries of a map."""
    return MessageType(descriptor)


def _generated_class(descriptor: Descriptor) -> type[Any]:
    return default_message_pool.url_to_type[f"type.googleapis.com/{descriptor.full_name}"]


def _reader(field: Any, part: MessageType | None) -> _Read:
    """Makes a function that reads a field of protobuf's message in betterproto2's form: lists, enums, None if
    absent."""
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
    """Makes a function that reads a field of betterproto2's message in the form of protobuf's constructor: messages as
    dicts."""
    get = attrgetter(field.name)
    if part is None:
        return get
    values = part.values
    if field.is_repeated:
        return lambda message: [values(each) for each in get(message)]
    return lambda message: None if (inner := get(message)) is None else values(inner)


def _enum_class(field: Any) -> Callable[[int], Any]:
    module = sys.modules[f"antiphon_protos.{field.enum_type.file.package}"]
    found: Callable[[int], Any] = getattr(module, field.enum_type.name)
    return found
