"""Conversion of dataclasses to messages and back, by the types of the dataclass and the descriptor of the message.

A `Shape` belongs to a dataclass of the ports and a message: each member has the field of its own name, or of an alias.
Types and defaults say what a field means: proto3 has no absence for most fields, so "" and 0 stand for None or for the
default of the member. Shapes are built at import; a member without a field, or a field without a member, fails there.

`put` functions make arguments for protobuf's constructor from values that `arguments` has checked: none of them gets
lost on the wire, such as a zero that would arrive as the default. `get` functions read a message. They raise
InvalidRequest, with the path of the field, for a missing message and for a number that its enum lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.store import ItemPage

Put = Callable[[Any], Any]
Get = Callable[[Any], Any]

# The fields that a member may have where none has its name.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "id": ("session_id",),
    "response_id": ("id",),
    "conversation_id": ("id",),
    "prompt_id": ("id",),
    "job_id": ("id",),
    "head_id": ("head_response_id",),
    "limit": ("page_size",),
    "max_nodes": ("page_size",),
    "cursor": ("page_token",),
    "after": ("page_token",),
    "next_cursor": ("next_page_token",),
    "release": ("release_ids",),
    "records": ("reclaimed_records",),
    "size_bytes": ("reclaimed_bytes",),
}


PAGING = ("page_size", "page_token")
"""Fields that have other names in errors of the port, whose callers know limits and cursors instead of pages."""


class Slot(NamedTuple):
    """One member of a value and its field."""

    field: str
    put: Put
    get: Get


class Shape:
    """A dataclass of the ports as a message, or as a part of its fields. `path` comes before the names of fields in
    errors."""

    def __init__(self, cls: type[Any], descriptor: Descriptor, path: str = "") -> None:
        hints = get_type_hints(cls)
        self._cls = cls
        self.slots: list[tuple[Get, Slot]] = []
        for member in fields(cls):
            derived = _DERIVED.get((cls, member.name))
            if derived is not None:
                self.slots.append((_itself, derived))
            else:
                slot = make_slot(member.name, hints[member.name], member.default, descriptor, path)
                self.slots.append((attrgetter(member.name), slot))
        self.fields = {slot.field for _read, slot in self.slots}

    @classmethod
    def of_all(cls, value_class: type[Any], descriptor: Descriptor, path: str = "") -> Self:
        """The shape of a dataclass that has every field of the message. TypeError: a field has no member."""
        shape = cls(value_class, descriptor, path)
        if shape.fields != set(descriptor.fields_by_name):
            raise TypeError(f"{descriptor.full_name} has fields that {value_class.__name__} lacks.")
        return shape

    def put(self, value: Any) -> dict[str, Any]:
        """The fields of the message."""
        return {slot.field: slot.put(read(value)) for read, slot in self.slots}

    def get(self, message: Any) -> Any:
        return self._cls(*[slot.get(message) for _read, slot in self.slots])


def make_slot(name: str, hint: Any, default: Any, descriptor: Descriptor, path: str = "") -> Slot:
    """The slot of a member. `default` is MISSING for a member that must be given. TypeError: it has no field."""
    field = find_field(name, descriptor)
    if field is None:
        raise TypeError(f"{descriptor.full_name} has no field for '{name}'.")
    base, is_optional = _without_none(hint)
    if default is MISSING and is_optional:
        default = None
    at = path + (name if field.name in PAGING else field.name)
    if field.is_repeated:
        return _repeated(field, base, default, at)
    put, get = _conversion(field, base, at)
    name, read = field.name, attrgetter(field.name)
    if field.has_presence:
        return Slot(
            name,
            lambda value: None if value is None or value == default else put(value),
            lambda message: get(read(message)) if message.HasField(name) else _absent(default, at),
        )
    if default is MISSING or default == field.default_value:
        return Slot(name, put, read if get is _itself else lambda message: get(read(message)))
    return Slot(name, put, lambda message: get(value) if (value := read(message)) else default)


def find_field(name: str, descriptor: Descriptor) -> Any:
    """The field of a member, by its name or an alias; None without one."""
    for candidate in (name, *ALIASES.get(name, ())):
        if candidate in descriptor.fields_by_name:
            return descriptor.fields_by_name[candidate]
    return None


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, UnionType):
        (base,) = (each for each in get_args(hint) if each is not NoneType)
        return base, True
    return hint, False


def _repeated(field: Any, base: Any, default: Any, at: str) -> Slot:
    (element, *_), read = get_args(base), attrgetter(field.name)
    is_tuple = get_origin(base) is tuple or default == ()
    collect: Callable[[Any], Any] = frozenset if get_origin(base) is frozenset else tuple if is_tuple else list
    put, get = _conversion(field, element, at)
    if put is _itself:
        return Slot(field.name, list, lambda message: collect(read(message)))
    in_order = sorted if collect is frozenset else iter
    return Slot(
        field.name,
        lambda values: [put(value) for value in in_order(values)],
        lambda message: collect([get(each) for each in read(message)]),
    )


def _conversion(field: Any, base: Any, at: str) -> tuple[Put, Get]:
    """How one value becomes that of the field, and back."""
    if field.message_type is not None:
        shape = Shape.of_all(base, field.message_type, f"{at}.")
        return shape.put, shape.get
    if issubclass(base, StrEnum):
        numbers, members = _numbers(field, base)
        return lambda value: None if value is None else numbers[value], lambda number: _member(members, number, at)
    return _itself, _itself


# ---- Enums ----


def _numbers(field: Any, enum: type[StrEnum]) -> tuple[dict[Any, int], dict[int, Any]]:
    """The numbers of the members of an enum, and back. The value of RESPONSE_STATUS_FAILED is FAILED."""
    values = field.enum_type.values
    prefix = values[0].name.removesuffix("UNSPECIFIED")
    names = {value.name.removeprefix(prefix): value.number for value in values if value.number}
    if names.keys() != enum.__members__.keys():
        raise TypeError(f"{field.enum_type.full_name} and {enum.__name__} have different members.")
    return {enum[name]: number for name, number in names.items()}, {names[member.name]: member for member in enum}


def _member(members: Mapping[int, Any], number: int, at: str) -> Any:
    if number not in members:
        problem = "is missing" if not number else f"has the unknown value {number}"
        raise InvalidRequest(f"'{at}' {problem}.", field=at)
    return members[number]


def _absent(default: Any, at: str) -> Any:
    if default is MISSING:
        raise InvalidRequest(f"'{at}' is missing.", field=at)
    return default


def _itself(value: Any) -> Any:
    return value


# The members that a message has in another form: a page of items names the next page instead of `has_more`.
_DERIVED = {
    (ItemPage, "has_more"): Slot(
        "next_page_token",
        lambda page: page.last_id if page.has_more else None,
        lambda message: bool(message.next_page_token),
    )
}
