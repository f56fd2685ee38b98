"""Services and their methods: names and messages from protobuf descriptors, everything else from a table of rows.

If a row has no method, or a method no row, the import fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_core.retrying import Retry
from antiphon_core.rpc.message_types import MessageType, message_type
from antiphon_core.rpc.roles import Roles


class Repeat(StrEnum):
    """The condition under which a repeated request has its effect only once. The values end the comments of the methods
    in the .proto files."""

    ALWAYS = "Repeatable."
    NAMED = "Repeatable with an id of the caller's."  # edges always send an id
    ITEMS = "Repeatable with a key, or with ids of the caller's in all items."  # edges name all items
    KEYED = "Repeatable with a key."
    HELD = "Repeatable, except for the tenant `antiphon.dispatch`."  # there each claim returns another tenant's job


@dataclass(frozen=True, slots=True)
class Row:
    """The row of one RPC: the method of the port that it calls, the roles that may call it (one of them is enough), the
    default deadline of clients (None for streams of any length), whether it is repeatable, and by which policy; whether
    a caller that waits gets an error within a second if the server shows no sign of life (`fails_fast`: calls that may
    wait for a lease or a job do not, nor do those that give something back); and whether it is a stream whose caller is
    authenticated again while it runs."""

    name: str
    port: Callable[..., Any]
    roles: Roles
    deadline_s: float | None
    repeat: Repeat = Repeat.ALWAYS
    retry: Retry = Retry.CALL
    fails_fast: bool = True
    is_checked_again: bool = False

    def is_sent_again(self, tenant: str) -> bool:
        """Whether a request of this tenant may be repeated."""
        return self.repeat is not Repeat.KEYED and not (self.repeat is Repeat.HELD and tenant == DISPATCH_TENANT)


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC: its row and its descriptor."""

    name: str
    service: str
    request: MessageType
    response: MessageType
    is_streaming: bool
    row: Row

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"

    @property
    def deadline_s(self) -> float | None:
        return self.row.deadline_s


@dataclass(frozen=True, slots=True)
class Service:
    """One service. `needs_room`: it does not serve while its server has no room for new data."""

    full_name: str
    descriptor: ServiceDescriptor
    methods: Mapping[str, Method]
    needs_room: bool = False


class Api:
    """The services of one server, which a client calls over one channel. The names of all methods are different."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.services = tuple(services)
        self.methods: Mapping[str, Method] = {
            name: method for service in services for name, method in service.methods.items()
        }
        if len(self.methods) != sum(len(service.methods) for service in services):
            raise TypeError(f"{self.name}: two services have a method of the same name.")

    @property
    def name(self) -> str:
        """The first service. Its health is that of all services that need no room."""
        return self.services[0].full_name

    @property
    def demanding_name(self) -> str:
        """A service that serves only if all services do: one that needs room, if there is one, or else the first."""
        return next((each.full_name for each in self.services if each.needs_room), self.name)


def make_service(descriptor: ServiceDescriptor, rows: Sequence[Row], *, needs_room: bool = False) -> Service:
    """The service of a descriptor. TypeError: its methods are not those of `rows`."""
    by_name = {row.name: row for row in rows}
    declared = {method.name for method in descriptor.methods}
    if declared != set(by_name):
        raise TypeError(f"{descriptor.full_name}: rows and methods differ: {declared ^ set(by_name)}")
    methods = {each.name: _method(descriptor.full_name, each, by_name[each.name]) for each in descriptor.methods}
    return Service(descriptor.full_name, descriptor, methods, needs_room)


def _method(service: str, descriptor: MethodDescriptor, row: Row) -> Method:
    return Method(
        name=descriptor.name,
        service=service,
        request=message_type(descriptor.input_type),
        response=message_type(descriptor.output_type),
        is_streaming=descriptor.server_streaming,
        row=row,
    )
