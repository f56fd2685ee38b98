"""Errors on the wire: an AntiphonError as google.rpc.Status with ErrorInfo, and back again."""

from __future__ import annotations

import logging
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from antiphon_core.errors import (
    ERROR_DOMAIN,
    AntiphonError,
    InternalError,
    InvalidRequest,
    PermissionDenied,
    Timeout,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    revive,
    row_of,
)

log = logging.getLogger(__name__)


def to_status(error: AntiphonError) -> grpc.Status:
    """What a server aborts with."""
    facts = dict(error.facts)
    if error.field is not None:
        facts["field"] = error.field
    row = row_of(error)
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=row.reason, domain=ERROR_DOMAIN, metadata=facts))
    return rpc_status.to_status(status_pb2.Status(code=row.grpc_status, message=error.message, details=[detail]))


def from_rpc_error(error: grpc.aio.AioRpcError, unavailable: type[Unavailable]) -> AntiphonError:
    """What the caller of a failed RPC raises: the very error of the other side when it sent one, otherwise what the
    transport's status code says. `unavailable` names the service that could not be reached."""
    info = _error_info(error)
    details = error.details() or error.code().name
    if info is not None:
        return revive(info.reason, details, dict(info.metadata))
    return _from_code(error.code(), details, unavailable)


def _error_info(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo | None:
    call: Any = error  # from_call wants a Call; an AioRpcError has all that it reads of one
    status = rpc_status.from_call(call)
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == ERROR_DOMAIN:
            return info
    return None


def _from_code(code: grpc.StatusCode, details: str, unavailable: type[Unavailable]) -> AntiphonError:
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        service = unavailable.__name__.removesuffix("Unavailable").lower()
        log.warning("the %s cannot be reached: %s", service, details)  # addresses are nothing for strangers
        return unavailable(f"The {service} cannot be reached.")
    by_code: dict[grpc.StatusCode, type[AntiphonError]] = {
        grpc.StatusCode.DEADLINE_EXCEEDED: Timeout,
        grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
        grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
        grpc.StatusCode.RESOURCE_EXHAUSTED: TooLarge,
        grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
        grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    }
    return by_code.get(code, InternalError)(details)
