"""Malformed gRPC messages: damaged requests of every method, and bytes that never were a message.

The seed determines everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from antiphon_core.rpc.call_metadata import TENANT_KEY
from antiphon_core.rpc.methods import APIS
from antiphon_core.rpc.services import Method
from tests.support.malformed import mutations

OPEN_METHODS = (
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
WAITS = frozenset({"AcquireSession", "ClaimJob", "ReadEvents", "BeginTurn", "Watch", "Generate"})
"""Methods whose calls may wait for an event that never comes, or never end by themselves."""

_NAMES = ("authorization", "traceparent", "x-request-id", "grpc-previous-rpc-attempts")

Metadata = Sequence[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class Message:
    """One call: its path, its headers, and the bytes of its request."""

    path: str
    metadata: Metadata
    data: bytes

    @property
    def waits(self) -> bool:
        return self.path.rpartition("/")[2] in WAITS


def malformed_messages(seed: int, texts: Sequence[str]) -> Iterator[Message]:
    """Yields messages for ever, all methods in turn. `texts` are existing ids and other values of real requests."""
    random = Random(seed)
    methods = [method for api in APIS for method in api.methods.values()]
    while True:
        for method in methods:
            made = _Maker(random, texts).message(method.request.strict.DESCRIPTOR)
            yield Message(method.path, _metadata(random), _damaged(random, method, made))
        path = random.choice(OPEN_METHODS)
        yield Message(path, _metadata(random), mutations.flipped(random, b"\x0a\x05proto"))


def _damaged(random: Random, method: Method, made: Any) -> bytes:
    data = bytes(made.SerializeToString())
    numbers = [field.number for field in method.request.strict.DESCRIPTOR.fields] or [1]
    kind = random.randrange(8)
    if kind == 0:
        return data + mutations.overlong_length(random, random.choice(numbers))
    if kind == 1:
        return data + mutations.nested_groups(random, random.choice(numbers))
    if kind <= 3:
        return data + b"".join(mutations.stray_field(random, numbers) for _ in range(random.randrange(1, 4)))
    if kind == 4:
        return random.randbytes(random.randrange(60))
    if kind == 5:
        return data  # its random values are malformed enough
    return random.choice(mutations.WIRE)(random, data)


def _metadata(random: Random) -> Metadata:
    tenant = random.choice(("t", "t", "t", "t", "", "other", "a" * 300, "antiphon.dispatch", "x y", "../t"))
    headers: list[tuple[str, str | bytes]] = [(TENANT_KEY, tenant)]
    values = ("", "Bearer", "Bearer x", "00-0-0-0", "a" * 900, "%ff")
    headers += [(name, random.choice(values)) for name in _NAMES if random.random() < 0.1]
    if random.random() < 0.05:
        headers.append(("x-odd-bin", random.randbytes(20)))
    return headers


class _Maker:
    """Makes messages of random values, most of them typical of real requests."""

    def __init__(self, random: Random, texts: Sequence[str]) -> None:
        self._random = random
        self._texts = texts
        self._by_type: Mapping[int, Callable[[], Any]] = {
            FieldDescriptor.TYPE_STRING: self._text,
            FieldDescriptor.TYPE_BYTES: self._bytes,
            FieldDescriptor.TYPE_BOOL: lambda: random.random() < 0.5,
            FieldDescriptor.TYPE_DOUBLE: lambda: random.choice((0.0, 1.5, -1.0, 1e308, float("nan"), float("inf"))),
            FieldDescriptor.TYPE_INT32: lambda: random.choice((0, 1, -1, 7, 2**31 - 1, -(2**31))),
            FieldDescriptor.TYPE_INT64: lambda: random.choice((0, 1, -1, 500, 2**53, 2**63 - 1, -(2**63))),
            FieldDescriptor.TYPE_UINT32: lambda: random.choice((0, 1, 2, 100, 2**32 - 1)),
            FieldDescriptor.TYPE_UINT64: lambda: random.choice((0, 1, 500, 2**53, 2**64 - 1)),
            FieldDescriptor.TYPE_ENUM: lambda: random.choice((0, 1, 2, 3, 4, 99, -1)),
        }

    def message(self, descriptor: Any, depth: int = 0) -> Any:
        """Returns a message with some of its fields."""
        values: dict[str, Any] = {}
        for field in descriptor.fields:
            if self._random.random() < (0.25 if depth > 2 else 0.8):
                values[field.name] = self._value(field, depth)
        return _class_of(descriptor)(**values)

    def _value(self, field: Any, depth: int) -> Any:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return {}
        make = self._by_type.get(field.type, lambda: self.message(field.message_type, depth + 1))
        if field.is_repeated:
            return [make() for _ in range(self._random.choice((0, 1, 2, 2, 40)))]
        return make()

    def _text(self) -> str:
        random = self._random
        if random.random() < 0.8:
            return random.choice(self._texts)
        return random.choice(("", "\x00", "a" * 400, "\r\nx: y", "conv_" + "g" * 48, "\U0010ffff", "resp_" + "1" * 70))

    def _bytes(self) -> bytes:
        whole: Any = {"a": 1, "model": "m", "metadata": {"k": "v"}, "type": "message", "content": [{"type": "x"}]}
        random = self._random
        if random.random() < 0.2:
            return random.choice((b"", b"\x00" * 32, b"\xff" * 5, b"event: x\ndata: {}\n\n", b"data: {}\n\n"))
        value: Any = random.choice((whole, [whole], [whole, whole], {}, []))
        return mutations.damaged_json(random, value)


def _class_of(descriptor: Any) -> type[Any]:
    found: type[Any] = descriptor._concrete_class
    return found
