"""The table of methods: every RPC of every service, with its deadline.

Names and message types come from the descriptors; what a descriptor cannot say (how long a caller waits) stands here.
A row without a method, or a method without a row, fails at import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from antiphon_core.rpc.message_types import MessageType, message_type
from antiphon_protos.antiphon.store.v1 import ANTIPHON_STORE_V1_STORE_PROTO_DESCRIPTOR as _STORE_FILE
from antiphon_protos.antiphon.translator.v1 import (
    ANTIPHON_TRANSLATOR_V1_TRANSLATOR_PROTO_DESCRIPTOR as _TRANSLATOR_FILE,
)


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC. `deadline_s` is how long a caller waits unless it says otherwise; None for streams without an end."""

    name: str
    path: str
    request: MessageType
    response: MessageType
    streams: bool
    deadline_s: float | None


@dataclass(frozen=True, slots=True)
class Service:
    full_name: str
    descriptor: ServiceDescriptor
    methods: Mapping[str, Method]


_POINT_S = 5.0  # one look-up or one small write
_SCAN_S = 15.0  # may read a whole chain or tree
_WAIT_S = 75.0  # waits for a lease or a job, LEASE_WAIT_MS_MAX at most

_STORE_DEADLINES_S: dict[str, float | None] = {
    "Put": _POINT_S,
    "Get": _POINT_S,
    "BatchGet": _SCAN_S,
    "UpdateStatus": _POINT_S,
    "Delete": _POINT_S,
    "List": _SCAN_S,
    "ListItems": _POINT_S,
    "ResolveItems": _POINT_S,
    "Chain": _SCAN_S,
    "Fork": _POINT_S,
    "Tree": _SCAN_S,
    "Children": _POINT_S,
    "Siblings": _POINT_S,
    "Leaves": _SCAN_S,
    "AcquireSession": _WAIT_S,
    "RenewSession": _POINT_S,
    "ReleaseSession": _POINT_S,
    "DescribeSession": _POINT_S,
    "BeginTurn": _WAIT_S,
    "CommitTurn": _POINT_S,
    "AbortTurn": _POINT_S,
    "CreateConversation": _POINT_S,
    "GetConversation": _POINT_S,
    "UpdateConversation": _POINT_S,
    "DeleteConversation": _POINT_S,
    "AddConversationItems": _POINT_S,
    "ListConversationItems": _POINT_S,
    "GetConversationItem": _POINT_S,
    "DeleteConversationItem": _POINT_S,
    "AppendEvents": _POINT_S,
    "AppendToLogs": _POINT_S,
    "ReadEvents": None,
    "EnqueueJob": _POINT_S,
    "ClaimJob": _WAIT_S,
    "HeartbeatJob": _POINT_S,
    "SettleJob": _POINT_S,
    "CancelJob": _POINT_S,
    "DescribeJob": _POINT_S,
    "Spend": _POINT_S,
    "Sweep": _SCAN_S,
}

_TRANSLATOR_DEADLINES_S: dict[str, float | None] = {"Generate": None, "CountTokens": _SCAN_S, "ListModels": _POINT_S}


def _method(service: str, method: MethodDescriptor, deadline_s: float | None) -> Method:
    return Method(
        name=method.name,
        path=f"/{service}/{method.name}",
        request=message_type(method.input_type),
        response=message_type(method.output_type),
        streams=method.server_streaming,
        deadline_s=deadline_s,
    )


def _service(descriptor: ServiceDescriptor, deadlines_s: Mapping[str, float | None]) -> Service:
    declared = {method.name for method in descriptor.methods}
    if declared != set(deadlines_s):
        raise TypeError(f"{descriptor.full_name}: rows and methods differ: {declared ^ set(deadlines_s)}")
    methods = {m.name: _method(descriptor.full_name, m, deadlines_s[m.name]) for m in descriptor.methods}
    return Service(full_name=descriptor.full_name, descriptor=descriptor, methods=methods)


STORE = _service(_STORE_FILE.services_by_name["ResponseStoreService"], _STORE_DEADLINES_S)
TRANSLATOR = _service(_TRANSLATOR_FILE.services_by_name["TranslatorService"], _TRANSLATOR_DEADLINES_S)
SERVICES = (STORE, TRANSLATOR)
