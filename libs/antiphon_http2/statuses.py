"""Status codes of gRPC and error codes of HTTP/2, and the mappings between them in the gRPC specification.

https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md ("HTTP2 Transport Mapping", "Errors") and
https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
"""

from __future__ import annotations

from enum import IntEnum

_NAMES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
    "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
    "UNAUTHENTICATED"
).split()

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
UNAUTHENTICATED = 16
STATUS_MAX = len(_NAMES) - 1


class ErrorCode(IntEnum):
    """The reason of a RST_STREAM or GOAWAY (RFC 9113, section 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


_BY_ERROR_CODE = {
    ErrorCode.NO_ERROR: INTERNAL,  # the status should have come in trailers
    ErrorCode.PROTOCOL_ERROR: INTERNAL,
    ErrorCode.INTERNAL_ERROR: INTERNAL,
    ErrorCode.FLOW_CONTROL_ERROR: INTERNAL,
    ErrorCode.SETTINGS_TIMEOUT: INTERNAL,
    ErrorCode.FRAME_SIZE_ERROR: INTERNAL,
    ErrorCode.REFUSED_STREAM: UNAVAILABLE,
    ErrorCode.CANCEL: CANCELLED,
    ErrorCode.COMPRESSION_ERROR: INTERNAL,
    ErrorCode.CONNECT_ERROR: INTERNAL,
    ErrorCode.ENHANCE_YOUR_CALM: RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: PERMISSION_DENIED,
}
_BY_HTTP_STATUS = {
    400: INTERNAL,
    401: UNAUTHENTICATED,
    403: PERMISSION_DENIED,
    404: UNIMPLEMENTED,
    429: UNAVAILABLE,
    502: UNAVAILABLE,
    503: UNAVAILABLE,
    504: UNAVAILABLE,
}


def name_of(status: int) -> str:
    """The name of a gRPC status, for logs and messages."""
    return _NAMES[status] if 0 <= status <= STATUS_MAX else str(status)


def status_of_reset(error_code: int) -> int:
    """The status of a call whose stream the server reset."""
    return _BY_ERROR_CODE.get(error_code, UNKNOWN)  # type: ignore[call-overload, no-any-return]


def status_of_http(http_status: int) -> int:
    """The gRPC status for a response that only has an HTTP status."""
    return _BY_HTTP_STATUS.get(http_status, UNKNOWN)


def error_code_name(error_code: int) -> str:
    """The name of an HTTP/2 error code; unknown codes in hexadecimal, as RFC 9113 writes them."""
    return ErrorCode(error_code).name if error_code in set(ErrorCode) else hex(error_code)
