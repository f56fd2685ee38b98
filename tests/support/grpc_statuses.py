"""Errors as grpcio's own server sends them, for tests of clients of grpcio."""

from __future__ import annotations

import grpc
from google.rpc import status_pb2
from grpc_status import rpc_status

from antiphon_core.errors import AntiphonError
from antiphon_core.rpc.status import to_bytes


def to_grpc_status(error: AntiphonError) -> grpc.Status:
    return rpc_status.to_status(status_pb2.Status.FromString(to_bytes(error)))
