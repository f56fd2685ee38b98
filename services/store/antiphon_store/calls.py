"""Codecs: the arguments and the result of a method of the ports, as request and answer of its RPC.

A codec comes from the signature of the method that the RPC's row names, and from the descriptors. An argument is a
field of the request, or a dataclass whose members are fields. The result is the answer's only field, or a dataclass
whose members are its fields.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import MISSING, is_dataclass
from inspect import Parameter, signature
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.services import Method
from antiphon_store.shapes import PAGING, Shape, Slot, find_field, make_slot


class Answer(NamedTuple):
    """The result of a method as its answer: `put` makes the message, `get` reads it."""

    put: Callable[[Any], Any]
    get: Callable[[Any], Any]


NODE_WORK_BYTES = 256


def work_bytes_of(result: Any) -> int:
    """The work to convert a result or its message, in bytes of JSON: a page of 10,000 nodes takes 25 ms, and other
    results have few parts."""
    return NODE_WORK_BYTES * len(getattr(result, "nodes", ()))


class Codec:
    """The messages of one RPC. TypeError: its parameters and fields differ."""

    def __init__(self, method: Method) -> None:
        self._name, self._message = method.name, method.request.strict
        self._hints = get_type_hints(method.row.port)
        self._slots: dict[str, Slot] = {}
        self._inline: dict[str, Shape] = {}
        for parameter in list(signature(method.row.port).parameters.values())[2:]:  # behind self and tenant
            self._place(parameter)
        self._check_fields()
        self._paged = {name: slot.field for name, slot in self._slots.items() if slot.field in PAGING}
        self.answer = _make_answer(self._hints["return"], method.response.strict)

    def _place(self, parameter: Parameter) -> None:
        name, hint = parameter.name, self._hints[parameter.name]
        default = MISSING if parameter.default is Parameter.empty else parameter.default
        if find_field(name, self._message.DESCRIPTOR) is not None:
            self._slots[name] = make_slot(name, hint, default, self._message.DESCRIPTOR)
        elif is_dataclass(hint) and isinstance(hint, type):
            self._inline[name] = Shape(hint, self._message.DESCRIPTOR)
        elif default is MISSING:
            raise TypeError(f"{self._name} has no field for '{name}'.")

    def _check_fields(self) -> None:
        placed = {slot.field for slot in self._slots.values()}.union(*(each.fields for each in self._inline.values()))
        if placed != set(self._message.DESCRIPTOR.fields_by_name):
            raise TypeError(f"{self._name} has fields without a parameter, or parameters that share one.")

    def request(self, arguments: Mapping[str, Any]) -> Any:
        """The request of a call with all arguments of the method (`arguments.binder`). InvalidRequest: the wire cannot
        carry one of them."""
        fields = {slot.field: slot.put(arguments[name]) for name, slot in self._slots.items()}
        for name, shape in self._inline.items():
            fields |= shape.put(arguments[name])
        try:
            return self._message(**fields)
        except ValueError as error:  # of a member that no rule checks
            raise InvalidRequest(f"The request cannot be sent: {error}") from error

    def arguments(self, request: Any) -> dict[str, Any]:
        """The arguments in a request, by their names. InvalidRequest: one of them is missing or unknown."""
        values = {name: slot.get(request) for name, slot in self._slots.items()}
        for name, shape in self._inline.items():
            values[name] = shape.get(request)
        return values

    def name_for_wire(self, error: AntiphonError) -> None:
        """Renames the field of a service's error to the field of the request."""
        _rename(error, self._paged)

    def name_for_port(self, error: AntiphonError) -> None:
        """Renames the field of a server's error to the parameter of the port."""
        _rename(error, {field: name for name, field in self._paged.items()})


def _make_answer(result: Any, message: type[Any]) -> Answer:
    if get_origin(result) is AsyncGenerator:
        result = get_args(result)[0]
    if result is type(None):
        return Answer(lambda _value: message(), lambda _answer: None)
    if is_dataclass(result) and isinstance(result, type) and len(message.DESCRIPTOR.fields) > 1:
        shape = Shape.of_all(result, message.DESCRIPTOR)
        return Answer(lambda value: message(**shape.put(value)), shape.get)
    (only,) = message.DESCRIPTOR.fields
    slot = make_slot(only.name, result, MISSING, message.DESCRIPTOR)
    return Answer(lambda value: message(**{slot.field: slot.put(value)}), slot.get)


def _rename(error: AntiphonError, names: Mapping[str, str]) -> None:
    if error.field is not None and error.field in names:
        other = names[error.field]
        error.message = error.message.replace(f"'{error.field}'", f"'{other}'")
        error.args = (error.message,)
        error.field = other


CODECS: Mapping[str, Codec] = {name: Codec(each) for name, each in STORE.methods.items() if name != "AppendToLogs"}
"""By the names of the RPCs. AppendToLogs holds requests of AppendEvents."""
