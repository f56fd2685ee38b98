"""Conversion of dataclasses to messages and back, by the types of the dataclass and the descriptor of the message.

A `Shape` belongs to a dataclass of the ports, or to arguments, and a message: each member has the field of its own
name, or of an alias. Types and defaults say what a field means: proto3 has no absence for most fields, so "" and 0
stand for None or for the default of the member. Shapes are built at import; a member without a field, or a field
without a member, fails there.

Values to put were checked (`antiphon_core.ports.checks`): none of them gets lost on the wire, such as a zero that would
arrive as the default. Getting them from a message raises InvalidRequest, with the path of the field, for a missing
message and for a number that its enum lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.store import ItemPage

Convert = Callable[[Any], Any]

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
    """One member of a value and its field. `default` is the value of a field that is absent, or MISSING if it must be
    there. `put` and `get` convert a value; None: it is the same on both sides. `at` is the field's name in errors."""

    member: str
    field: str
    default: Any
    has_presence: bool
    is_zero_absent: bool
    put: Convert | None
    get: Convert | None
    at: str


class Shape:
    """Members as the fields of a message, or as some of them. `make` makes a value of its members in the order of the
    slots; `read` is how a member of a value is read, by its name."""

    def __init__(
        self, slots: Sequence[Slot], make: Callable[..., Any], read: Callable[[Any, str], Any] = getattr
    ) -> None:
        self._slots = slots
        self._make = make
        self._read = read
        self.fields = {slot.field for slot in slots}

    @classmethod
    def of(cls, value_class: type[Any], descriptor: Descriptor, path: str = "") -> Self:
        """The shape of a dataclass of the ports. `path` comes before the names of fields in errors."""
        hints = get_type_hints(value_class)
        slots = [
            _DERIVED.get((value_class, member.name))
            or make_slot(member.name, hints[member.name], member.default, descriptor, path)
            for member in fields(value_class)
        ]
        return cls(slots, value_class)

    @classmethod
    def of_all(cls, value_class: type[Any], descriptor: Descriptor, path: str = "") -> Self:
        """The shape of a dataclass that has every field of the message. TypeError: a field has no member."""
        shape = cls.of(value_class, descriptor, path)
        if shape.fields != set(descriptor.fields_by_name):
            raise TypeError(f"{descriptor.full_name} has fields that {value_class.__name__} lacks.")
        return shape

    def put(self, value: Any) -> dict[str, Any]:
        """The fields of the message, as arguments for protobuf's constructor."""
        found = {}
        for member, field, default, has_presence, _, put, _, _ in self._slots:
            each = self._read(value, member)
            if each is not None and not (has_presence and each == default):
                found[field] = each if put is None else put(each)
        return found

    def get(self, message: Any) -> Any:
        """The value, from the fields of a message."""
        found = []
        for _, field, default, has_presence, is_zero_absent, _, get, at in self._slots:
            each = getattr(message, field)
            if (is_zero_absent and not each) or (has_presence and not message.HasField(field)):
                if default is MISSING:
                    raise InvalidRequest(f"'{at}' is missing.", field=at)
                each = default
            elif get is not None:
                each = get(each)
            found.append(each)
        return self._make(*found)


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
        return Slot(name, field.name, default, False, False, *_list_conversion(field, base, default, at), at)
    has_own_zero = default is MISSING or default == field.default_value
    put, get = _conversion(field, base, at)
    return Slot(name, field.name, default, field.has_presence, not (field.has_presence or has_own_zero), put, get, at)


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


def _list_conversion(field: Any, base: Any, default: Any, at: str) -> tuple[Convert, Convert]:
    element, *_ = get_args(base)
    is_tuple = get_origin(base) is tuple or default == ()
    collect: Convert = frozenset if get_origin(base) is frozenset else tuple if is_tuple else list
    put, get = _conversion(field, element, at)
    if put is None or get is None:
        return list, collect
    in_order = sorted if collect is frozenset else iter
    return lambda values: [put(value) for value in in_order(values)], lambda values: collect(map(get, values))


def _conversion(field: Any, base: Any, at: str) -> tuple[Convert | None, Convert | None]:
    """How one value becomes that of the field, and back."""
    if field.message_type is not None:
        shape = Shape.of_all(base, field.message_type, f"{at}.")
        return shape.put, shape.get
    if issubclass(base, StrEnum):
        numbers = _numbers(field, base)
        return numbers.__getitem__, _Members(numbers, at).__getitem__
    return None, None


# ---- Enums ----


def _numbers(field: Any, enum: type[StrEnum]) -> dict[Any, int]:
    """The numbers of the members of an enum. The value of RESPONSE_STATUS_FAILED is FAILED."""
    values = field.enum_type.values
    prefix = values[0].name.removesuffix("UNSPECIFIED")
    names = {value.name.removeprefix(prefix): value.number for value in values if value.number}
    if names.keys() != enum.__members__.keys():
        raise TypeError(f"{field.enum_type.full_name} and {enum.__name__} have different members.")
    return {enum[name]: number for name, number in names.items()}


class _Members(dict[int, Any]):
    """The members of an enum by their numbers. InvalidRequest: there is no such number."""

    def __init__(self, numbers: Mapping[Any, int], at: str) -> None:
        super().__init__({number: member for member, number in numbers.items()})
        self._at = at

    def __missing__(self, number: int) -> Any:
        problem = f"has the unknown value {number}" if number else "is missing"
        raise InvalidRequest(f"'{self._at}' {problem}.", field=self._at)


_DERIVED = {(ItemPage, "has_more"): Slot("next_id", "next_page_token", False, False, False, None, bool, "")}
"""Members that a message has in another form: a page of items names the next page instead of `has_more`."""
