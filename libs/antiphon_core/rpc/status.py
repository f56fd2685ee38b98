"""Errors on the wire: an AntiphonError as google.rpc.Status with its details, and back again.

ErrorInfo names the error with its facts, and is read by our own clients. BadRequest names the wrong field and RetryInfo
the pause before another call, for callers with libraries that know them.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from antiphon_core.cutting import cut
from antiphon_core.errors import (
    ERROR_DOMAIN,
    AntiphonError,
    GrpcStatus,
    InternalError,
    PermissionDenied,
    PreviousResponseNotReady,
    ServiceFault,
    SessionLocked,
    Timeout,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    revive,
    row_of,
)
from antiphon_core.limits import ERROR_FACT_BYTES_MAX
from antiphon_core.telemetry.log_limit import LogLimit
from antiphon_http2.errors import GrpcError
from antiphon_http2.server.answers import Status

log = logging.getLogger(__name__)

# When the same call may succeed, after errors that do not say it themselves.
_RETRY_AFTER_MS: dict[type[AntiphonError], int] = {
    SessionLocked: 500,
    PreviousResponseNotReady: 1000,
    Unavailable: 1000,
}

_UNREACHABLE: defaultdict[str, LogLimit] = defaultdict(LogLimit)
"""By service: all clients of one share its line."""

_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def to_status(error: AntiphonError) -> Status:
    """The status that a server ends an RPC with."""
    rich = _rich_status(error)
    return Status(rich.code, rich.message, rich.SerializeToString())


def code_of(error: AntiphonError) -> grpc.StatusCode:
    """The status that an error has on the wire."""
    return _CODES[row_of(error).grpc_status]


def to_bytes(error: AntiphonError) -> bytes:
    """The error as a serialized google.rpc.Status, for answers that carry several outcomes."""
    data: bytes = _rich_status(error).SerializeToString()
    return data


def _rich_status(error: AntiphonError) -> status_pb2.Status:
    facts = dict(error.facts)
    if error.field is not None:
        facts["field"] = error.field
    row = row_of(error)
    info = error_details_pb2.ErrorInfo(reason=row.reason, domain=ERROR_DOMAIN, metadata=facts)
    details = map(_pack, (info, *_advice(error)))
    return status_pb2.Status(code=row.grpc_status, message=error.message, details=details)


def _advice(error: AntiphonError) -> Iterator[Message]:
    """BadRequest and RetryInfo, where they apply."""
    if error.field is not None and row_of(error).grpc_status is GrpcStatus.INVALID_ARGUMENT:
        violation = {"field": error.field, "description": cut(error.message, ERROR_FACT_BYTES_MAX)}
        yield error_details_pb2.BadRequest(field_violations=[violation])
    usual_ms = sum(pause_ms for kind, pause_ms in _RETRY_AFTER_MS.items() if isinstance(error, kind))
    retry_after_ms = int(error.facts.get("retry_after_ms", usual_ms))
    if retry_after_ms:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(retry_after_ms)
        yield error_details_pb2.RetryInfo(retry_delay=delay)


def _pack(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def from_grpc_error(error: GrpcError, unavailable: type[Unavailable]) -> AntiphonError:
    """The error that the caller of a failed RPC raises: the one that the other side sent, otherwise one for the
    transport's status code. `unavailable` names the service that could not be reached."""
    try:
        status = status_pb2.Status.FromString(error.details)
    except DecodeError:
        status = None
    fault = _from_status(status, _CODES[error.status], error.message, unavailable)
    if error.is_unprocessed:
        fault.facts["unprocessed"] = "true"
    return fault


def from_bytes(data: bytes, unavailable: type[Unavailable]) -> AntiphonError:
    """The error in a serialized google.rpc.Status, as `from_grpc_error` reads it."""
    try:
        status = status_pb2.Status.FromString(data)
    except DecodeError:
        return ServiceFault("A service answered with an error that cannot be read.")
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    return _from_status(status, code, status.message or code.name, unavailable)


def _from_status(
    status: status_pb2.Status | None, code: grpc.StatusCode, details: str, unavailable: type[Unavailable]
) -> AntiphonError:
    """The error in the details of a status; without a readable one, the error of its code."""
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        with suppress(DecodeError):
            if detail.Unpack(info) and info.domain == ERROR_DOMAIN:
                return revive(info.reason, details, dict(info.metadata))
    return _from_code(code, details, unavailable)


def _from_code(code: grpc.StatusCode, details: str, unavailable: type[Unavailable]) -> AntiphonError:
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        service = unavailable.__name__.removesuffix("Unavailable").lower()
        _log_unreachable(service, details)
        return unavailable(f"The {service} cannot be reached.", away=True)
    # Antiphon's services say in the details what is wrong with a request. A bare code is the transport's, or another
    # server's: then the service does not speak its protocol, and the client has made no mistake.
    by_code: dict[grpc.StatusCode, type[AntiphonError]] = {
        grpc.StatusCode.DEADLINE_EXCEEDED: Timeout,
        grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
        grpc.StatusCode.INVALID_ARGUMENT: ServiceFault,
        grpc.StatusCode.RESOURCE_EXHAUSTED: ServiceFault,
        grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
        grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    }
    return by_code.get(code, InternalError)(details)


def _log_unreachable(service: str, details: str) -> None:
    """Logs the details, which callers are not told: addresses. While a service is away, each waiting call fails several
    times a second (retrying.py)."""
    if count := _UNREACHABLE[service].count(monotonic()):
        log.warning("the %s cannot be reached: %s (failures since the last such line: %d)", service, details, count)
