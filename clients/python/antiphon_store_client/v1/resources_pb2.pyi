from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResponseStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESPONSE_STATUS_UNSPECIFIED: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_QUEUED: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_IN_PROGRESS: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_COMPLETED: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_INCOMPLETE: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_FAILED: _ClassVar[ResponseStatus]
    RESPONSE_STATUS_CANCELLED: _ClassVar[ResponseStatus]

class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_UNSPECIFIED: _ClassVar[Order]
    ORDER_ASCENDING: _ClassVar[Order]
    ORDER_DESCENDING: _ClassVar[Order]
RESPONSE_STATUS_UNSPECIFIED: ResponseStatus
RESPONSE_STATUS_QUEUED: ResponseStatus
RESPONSE_STATUS_IN_PROGRESS: ResponseStatus
RESPONSE_STATUS_COMPLETED: ResponseStatus
RESPONSE_STATUS_INCOMPLETE: ResponseStatus
RESPONSE_STATUS_FAILED: ResponseStatus
RESPONSE_STATUS_CANCELLED: ResponseStatus
ORDER_UNSPECIFIED: Order
ORDER_ASCENDING: Order
ORDER_DESCENDING: Order

class ResponseRecord(_message.Message):
    __slots__ = ("id", "parent_id", "session_id", "status", "body", "input_items", "output_items", "version", "depth", "created_at_ms", "updated_at_ms", "expires_at_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    INPUT_ITEMS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ITEMS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    parent_id: str
    session_id: str
    status: ResponseStatus
    body: bytes
    input_items: bytes
    output_items: bytes
    version: int
    depth: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int
    def __init__(self, id: _Optional[str] = ..., parent_id: _Optional[str] = ..., session_id: _Optional[str] = ..., status: _Optional[_Union[ResponseStatus, str]] = ..., body: _Optional[bytes] = ..., input_items: _Optional[bytes] = ..., output_items: _Optional[bytes] = ..., version: _Optional[int] = ..., depth: _Optional[int] = ..., created_at_ms: _Optional[int] = ..., updated_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ...) -> None: ...

class Stamp(_message.Message):
    __slots__ = ("version", "depth", "created_at_ms", "updated_at_ms", "expires_at_ms")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    version: int
    depth: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int
    def __init__(self, version: _Optional[int] = ..., depth: _Optional[int] = ..., created_at_ms: _Optional[int] = ..., updated_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ...) -> None: ...

class Fence(_message.Message):
    __slots__ = ("session_id", "token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    token: int
    def __init__(self, session_id: _Optional[str] = ..., token: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("fence", "holder", "expires_at_ms")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    fence: Fence
    holder: str
    expires_at_ms: int
    def __init__(self, fence: _Optional[_Union[Fence, _Mapping[str, object]]] = ..., holder: _Optional[str] = ..., expires_at_ms: _Optional[int] = ...) -> None: ...

class Precondition(_message.Message):
    __slots__ = ("version", "statuses", "unless_statuses", "fence")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    UNLESS_STATUSES_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    version: int
    statuses: _containers.RepeatedScalarFieldContainer[ResponseStatus]
    unless_statuses: _containers.RepeatedScalarFieldContainer[ResponseStatus]
    fence: Fence
    def __init__(self, version: _Optional[int] = ..., statuses: _Optional[_Iterable[_Union[ResponseStatus, str]]] = ..., unless_statuses: _Optional[_Iterable[_Union[ResponseStatus, str]]] = ..., fence: _Optional[_Union[Fence, _Mapping[str, object]]] = ...) -> None: ...
