"""Operations: the methods of the ports with the checks of their arguments, and their RPCs.

An operation comes from the signature of its port, whose annotations check arguments (`antiphon_core.ports.checks`), and
from the descriptors of its RPC. An argument is a field of the request, or a dataclass whose members are fields. The
result is the answer's only field, or a dataclass whose members are its fields. Errors name arguments as the request's
fields are named, except PAGING, which the port names otherwise.

The service checks arguments, and so does the client before it sends: both reject a value that the wire cannot carry
with the same message.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import MISSING, is_dataclass
from functools import partial, wraps
from inspect import Parameter, signature
from operator import getitem
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from antiphon_core import offload
from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.ports.checks import check_of
from antiphon_core.rpc.codec import encode
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.services import Method
from antiphon_store.shapes import PAGING, Shape, Slot, find_field, make_slot

if TYPE_CHECKING:
    from antiphon_core.rpc.server import Call, Handler

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")
_PortMethod = Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Answer]]

NODE_WORK_BYTES = 256


class Answer(NamedTuple):
    """The result of a method as its answer: `put` makes the message, `get` reads it."""

    put: Callable[[Any], Any]
    get: Callable[[Any], Any]


def work_bytes_of(result: Any) -> int:
    """The work to convert a result or its message, in bytes of JSON: a page of 10,000 nodes takes 25 ms, and other
    results have few parts."""
    return NODE_WORK_BYTES * len(getattr(result, "nodes", ()))


COPIES_PER_PARSE = 16
"""The bytes that are copied in the time in which one byte of JSON is parsed."""
_CONTENTS = (
    "body",
    "input_items",
    "output_items",
    "items",
    "frames",
    "payload",
    "content",
    "history",
    "replay",
    "approvals",
)


def content_bytes_of(result: Any) -> int:
    """The bytes of content in a result, such as in each record of a chain."""
    if isinstance(result, bytes):
        return len(result)
    if isinstance(result, (list, tuple)):
        return sum(map(content_bytes_of, result))
    known = getattr(type(result), "__dataclass_fields__", ())
    return sum(content_bytes_of(getattr(result, name)) for name in _CONTENTS if name in known)


class Operation:
    """A method of a port and one of its RPCs. TypeError: its parameters and fields differ."""

    def __init__(self, method: Method) -> None:
        self.rpc, self.port, self._message = method.name, method.row.port, method.request.strict
        self._streams = method.is_streaming
        self._hints = get_type_hints(self.port)
        self._parameters = list(signature(self.port).parameters.values())[1:]  # behind self
        self._slots: dict[str, Slot] = {}
        self._inline: dict[str, Shape] = {}
        for parameter in self._parameters[1:]:  # behind tenant
            self._place(parameter)
        self._own = Shape(
            list(self._slots.values()), lambda *values: dict(zip(self._slots, values, strict=True)), getitem
        )
        self._require_all_fields()
        self._paged = {name: slot.field for name, slot in self._slots.items() if slot.field in PAGING}
        self.answer = _make_answer(self._hints["return"], method.response.strict)
        members = set(getattr(self._hints["return"], "__dataclass_fields__", _CONTENTS))
        self._has_nodes, self._is_small = "nodes" in members, members.isdisjoint((*_CONTENTS, "nodes", "records"))
        self._answer_type = method.response
        self.bind = self._make_bind()

    def _place(self, parameter: Parameter) -> None:
        name, hint = parameter.name, self._hints[parameter.name]
        default = MISSING if parameter.default is Parameter.empty else parameter.default
        if find_field(name, self._message.DESCRIPTOR) is not None:
            self._slots[name] = make_slot(name, hint, default, self._message.DESCRIPTOR)
        elif is_dataclass(hint) and isinstance(hint, type):
            self._inline[name] = Shape.of(hint, self._message.DESCRIPTOR)
        elif default is MISSING:
            raise TypeError(f"{self.rpc} has no field for '{name}'.")

    def _names(self, *values: Any) -> dict[str, Any]:
        return dict(zip(self._slots, values, strict=True))

    def _require_all_fields(self) -> None:
        placed = self._own.fields.union(*(each.fields for each in self._inline.values()))
        if placed != set(self._message.DESCRIPTOR.fields_by_name):
            raise TypeError(f"{self.rpc} has fields without a parameter, or parameters that share one.")

    # ---- Arguments ----

    def _make_bind(self) -> Callable[[tuple[Any, ...], Mapping[str, Any]], dict[str, Any]]:
        """Makes the function that names and completes the arguments of the method, and checks those that are not None.
        TypeError: the method cannot be called with them."""
        hints = get_type_hints(self.port, include_extras=True)
        names = [each.name for each in self._parameters]
        defaults = {each.name: each.default for each in self._parameters if each.default is not Parameter.empty}
        positional = sum(each.kind is not Parameter.KEYWORD_ONLY for each in self._parameters)
        found = [(name, check_of(hints[name]), self._name_in_errors(name)) for name in names]
        all_names, checks = set(names), [(name, check, field) for name, check, field in found if check is not None]

        def bind(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
            named = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
            if named.keys() != all_names or len(args) > positional or not kwargs.keys().isdisjoint(names[: len(args)]):
                signature(self.port).bind(None, *args, **kwargs)  # raises
            for name, check, field in checks:
                value = named[name]
                if value is not None:
                    check(value, field)
            return named

        return bind

    def _name_in_errors(self, name: str) -> str:
        if name in self._inline:
            return ""  # its members are fields of the request
        return self._slots[name].at if name in self._slots else name

    # ---- The wire ----

    def request(self, arguments: Mapping[str, Any]) -> Any:
        """The request of a call with all arguments of the method. InvalidRequest: the wire cannot carry one of
        them."""
        fields = self._own.put(arguments)
        for name, shape in self._inline.items():
            fields |= shape.put(arguments[name])
        try:
            return self._message(**fields)
        except ValueError as error:  # of a member that no annotation checks
            raise InvalidRequest(f"The request cannot be sent: {error}") from error

    def arguments(self, request: Any) -> dict[str, Any]:
        """The arguments in a request, by their names. InvalidRequest: one of them is missing or unknown."""
        values: dict[str, Any] = self._own.get(request) if self._slots else {}
        for name, shape in self._inline.items():
            values[name] = shape.get(request)
        return values

    def handler(self, method: Any) -> Handler:
        """The gRPC handler that calls a method of the service."""
        return self._stream_handler(method) if self._streams else self._unary_handler(method)

    def _unary_handler(self, method: Any) -> Handler:
        async def handle(request: Any, call: Call) -> Any:
            try:
                result = await method(call.tenant, **self.arguments(request))
                if self._is_small:
                    return self.answer.put(result)
                size_bytes = work_bytes_of(result) if self._has_nodes else content_bytes_of(result) // COPIES_PER_PARSE
                if size_bytes <= offload.INLINE_BYTES_MAX:
                    return self.answer.put(result)
                return await offload.run(partial(self._encode, result), size_bytes=size_bytes)
            except InvalidRequest as error:
                self.name_for_wire(error)
                raise

        return handle

    def _encode(self, result: Any) -> bytes:
        """The result as the bytes of its message, which copies its content twice."""
        return encode(self._answer_type, self.answer.put(result))

    def _stream_handler(self, method: Any) -> Handler:
        async def handle(request: Any, call: Call) -> AsyncGenerator[Any, None]:
            async with aclosing(method(call.tenant, **self.arguments(request))) as values:
                async for value in values:
                    yield self.answer.put(value)

        return handle

    def name_for_wire(self, error: AntiphonError) -> None:
        """Renames the field of a service's error to the field of the request."""
        _rename(error, self._paged)

    def name_for_port(self, error: AntiphonError) -> None:
        """Renames the field of a server's error to the parameter of the port."""
        _rename(error, {field: name for name, field in self._paged.items()})


def implements(
    port: _PortMethod[_Parameters, _Answer],
) -> Callable[[Callable[..., Coroutine[Any, Any, _Answer]]], _PortMethod[_Parameters, _Answer]]:
    """Decorates the service's method for one of the ports: it gets every argument by name, completed and checked."""
    bind = OPERATION_OF[port].bind

    def decorate(method: Callable[..., Coroutine[Any, Any, _Answer]]) -> _PortMethod[_Parameters, _Answer]:
        @wraps(port)
        async def call(self: Any, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Answer:
            return await method(self, **bind(args, kwargs))

        call.__doc__ = port.__doc__ or method.__doc__
        return call

    return decorate


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
    put, shape = slot.put or (lambda value: value), Shape([slot], lambda value: value)
    return Answer(lambda value: message(**{} if value is None else {slot.field: put(value)}), shape.get)


def _rename(error: AntiphonError, names: Mapping[str, str]) -> None:
    if error.field is not None and error.field in names:
        other = names[error.field]
        error.message = error.message.replace(f"'{error.field}'", f"'{other}'")
        error.args = (error.message,)
        error.field = other


OPERATIONS: Mapping[str, Operation] = {
    name: Operation(each) for name, each in STORE.methods.items() if name != "AppendToLogs"
}
"""By the names of the RPCs. AppendToLogs holds requests of AppendEvents."""

OPERATION_OF: Mapping[Callable[..., Any], Operation] = {each.port: each for each in reversed(list(OPERATIONS.values()))}
"""By the methods of the ports. A method of several RPCs has the first one."""
