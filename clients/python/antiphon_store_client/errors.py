"""Exceptions: one class for each gRPC code that the store uses, with the facts of `google.rpc` details.

StoreError               the root, and every other code
├── InvalidArgument      a field is wrong; `field` names it
├── NotFound             never written, deleted, expired, or another tenant's
├── AlreadyExists        the id exists with other content
├── Aborted              a lost race: read again, decide again, write again, after `retry_after_s` if there is one
├── FailedPrecondition   the response to be continued has not ended, or a key belongs to another request
├── ResourceExhausted    over a limit of size or depth
├── Unauthenticated      no token or certificate that the store knows
├── PermissionDenied     the token lacks the tenant or the role
├── Unavailable          the store cannot be reached; a write may have happened
├── DeadlineExceeded     no answer in time; a write may have happened
└── DataLoss             the stored row is damaged
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import grpc

from antiphon_store_client.details.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from antiphon_store_client.details.status_pb2 import Status

_DETAILS_KEY = "grpc-status-details-bin"


class StoreError(Exception):
    """A call that failed.

    `reason` is a value of `antiphon.store.v1.ErrorReason` without its prefix; it is empty when the call never reached
    the store. `field` is the wrong field of the request, `retry_after_s` the pause before the same call may succeed.
    """

    by_code: ClassVar[dict[grpc.StatusCode, type[StoreError]]] = {}

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode,
        reason: str = "",
        field: str | None = None,
        retry_after_s: float | None = None,
        facts: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.field = field
        self.retry_after_s = retry_after_s
        self.facts = dict(facts or {})

    def __init_subclass__(cls, *, code: grpc.StatusCode) -> None:
        StoreError.by_code[code] = cls

    def __str__(self) -> str:
        return f"{self.reason or self.code.name}: {self.message}"


class InvalidArgument(StoreError, code=grpc.StatusCode.INVALID_ARGUMENT):
    """A field of the request is malformed, missing, or excluded by another field."""


class NotFound(StoreError, code=grpc.StatusCode.NOT_FOUND):
    """The resource was never written, was deleted, has expired, or is another tenant's."""


class AlreadyExists(StoreError, code=grpc.StatusCode.ALREADY_EXISTS):
    """The id exists with other content."""


class Aborted(StoreError, code=grpc.StatusCode.ABORTED):
    """The write lost a race: by version, status, fence or lease."""


class FailedPrecondition(StoreError, code=grpc.StatusCode.FAILED_PRECONDITION):
    """The response to continue has not ended, or the idempotency key belongs to another request."""


class ResourceExhausted(StoreError, code=grpc.StatusCode.RESOURCE_EXHAUSTED):
    """The request or its answer is over a limit of the store."""


class Unauthenticated(StoreError, code=grpc.StatusCode.UNAUTHENTICATED):
    """The store does not know the token or the certificate."""


class PermissionDenied(StoreError, code=grpc.StatusCode.PERMISSION_DENIED):
    """The credential lacks the tenant, or a role that the method asks for."""


class Unavailable(StoreError, code=grpc.StatusCode.UNAVAILABLE):
    """The store or its database cannot be reached. A write may have happened and can be sent again."""


class DeadlineExceeded(StoreError, code=grpc.StatusCode.DEADLINE_EXCEEDED):
    """The answer did not come in time. A write may have happened and can be sent again."""


class DataLoss(StoreError, code=grpc.StatusCode.DATA_LOSS):
    """The stored row is damaged. Its operator can restore it from a backup; sending the call again does not help."""


def store_error(error: grpc.RpcError) -> StoreError:
    """Returns the exception for a call that gRPC reports as failed."""
    call: Any = error  # the errors of grpc and of grpc.aio are calls, too
    details = _details(call.trailing_metadata() or ())
    info, wrong, retry = ErrorInfo(), BadRequest(), RetryInfo()
    for detail in details.details:
        for known in (info, wrong, retry):
            detail.Unpack(known)
    return StoreError.by_code.get(call.code(), StoreError)(
        call.details() or call.code().name,
        code=call.code(),
        reason=info.reason,
        field=wrong.field_violations[0].field if wrong.field_violations else None,
        retry_after_s=retry.retry_delay.ToTimedelta().total_seconds() if retry.HasField("retry_delay") else None,
        facts=info.metadata,
    )


def _details(metadata: Any) -> Status:
    """The status in the trailers of a call; an empty one if the server sent none."""
    values = [value for key, value in metadata if key == _DETAILS_KEY]
    return Status.FromString(values[0]) if values else Status()
