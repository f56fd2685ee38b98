"""Services and their methods: names and messages from the descriptors, the rest from a table of rows.

A row without a method, or a method without a row, fails at import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_core.rpc.message_types import MessageType, message_type
from antiphon_core.rpc.roles import Roles


class Repeat(StrEnum):
    """When the same request again has its effect once. The texts end the comments of the methods."""

    ALWAYS = "Repeatable."
    NAMED = "Repeatable with an id of the caller's."  # Antiphon's own clients always send one
    KEYED = "Repeatable with a key."
    HELD = "Repeatable, except for the tenant `antiphon.dispatch`."  # where each claim is the next tenant's turn


@dataclass(frozen=True, slots=True)
class Row:
    """The table's entry of one RPC: the method of the port that it calls, the roles that may call it (one of them is
    enough), how long a caller waits unless it says otherwise (None for streams without an end), and whether a request
    can be sent again."""

    name: str
    port: Callable[..., Any]
    roles: Roles
    deadline_s: float | None
    repeat: Repeat = Repeat.ALWAYS

    def is_sent_again(self, tenant: str) -> bool:
        """Whether a client repeats a request of this tenant by itself when the connection is lost."""
        return self.repeat is not Repeat.KEYED and not (self.repeat is Repeat.HELD and tenant == DISPATCH_TENANT)


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC: its row and its descriptor."""

    name: str
    service: str
    request: MessageType
    response: MessageType
    streams: bool
    row: Row

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"

    @property
    def deadline_s(self) -> float | None:
        return self.row.deadline_s


@dataclass(frozen=True, slots=True)
class Service:
    full_name: str
    descriptor: ServiceDescriptor
    methods: Mapping[str, Method]


class Api:
    """Services of one server, which one client calls over one channel. Their methods have different names."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.services = tuple(services)
        self.methods: Mapping[str, Method] = {
            name: method for service in services for name, method in service.methods.items()
        }
        if len(self.methods) != sum(len(service.methods) for service in services):
            raise TypeError(f"{self.name}: two services have a method of the same name.")

    @property
    def name(self) -> str:
        """The service whose health stands for that of all."""
        return self.services[0].full_name


def make_service(descriptor: ServiceDescriptor, rows: Sequence[Row]) -> Service:
    """A service of the methods that both its descriptor and `rows` have. TypeError: one lacks a method of the other."""
    by_name = {row.name: row for row in rows}
    declared = {method.name for method in descriptor.methods}
    if declared != set(by_name):
        raise TypeError(f"{descriptor.full_name}: rows and methods differ: {declared ^ set(by_name)}")
    methods = {each.name: _method(descriptor.full_name, each, by_name[each.name]) for each in descriptor.methods}
    return Service(descriptor.full_name, descriptor, methods)


def _method(service: str, descriptor: MethodDescriptor, row: Row) -> Method:
    return Method(
        name=descriptor.name,
        service=service,
        request=message_type(descriptor.input_type),
        response=message_type(descriptor.output_type),
        streams=descriptor.server_streaming,
        row=row,
    )
