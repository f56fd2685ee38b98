"""Errors of grpcio's own server and client, for tests of clients of grpcio and of Antiphon's server."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
from google.rpc import status_pb2
from grpc_status import rpc_status

from antiphon_core.errors import AntiphonError
from antiphon_core.rpc.status import to_bytes
from antiphon_http2.errors import GrpcError


def to_grpc_status(error: AntiphonError) -> grpc.Status:
    return rpc_status.to_status(status_pb2.Status.FromString(to_bytes(error)))


def lean_error(error: grpc.aio.AioRpcError) -> GrpcError:
    """The error that Antiphon's own client raises for this one."""
    details: Any = (error.trailing_metadata() or {}).get("grpc-status-details-bin", b"")
    number: int = error.code().value[0]
    return GrpcError(number, error.details() or "", details=bytes(details))
