from antiphon_store_client.v1 import resources_pb2 as _resources_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AcquireSessionRequest(_message.Message):
    __slots__ = ("session_id", "holder", "ttl_ms", "wait_ms")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    holder: str
    ttl_ms: int
    wait_ms: int
    def __init__(self, session_id: _Optional[str] = ..., holder: _Optional[str] = ..., ttl_ms: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class AcquireSessionResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: _resources_pb2.Lease
    def __init__(self, lease: _Optional[_Union[_resources_pb2.Lease, _Mapping[str, object]]] = ...) -> None: ...

class TryAcquireSessionRequest(_message.Message):
    __slots__ = ("session_id", "holder", "ttl_ms")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    holder: str
    ttl_ms: int
    def __init__(self, session_id: _Optional[str] = ..., holder: _Optional[str] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class TryAcquireSessionResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: _resources_pb2.Lease
    def __init__(self, lease: _Optional[_Union[_resources_pb2.Lease, _Mapping[str, object]]] = ...) -> None: ...

class RenewSessionRequest(_message.Message):
    __slots__ = ("fence", "ttl_ms")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    fence: _resources_pb2.Fence
    ttl_ms: int
    def __init__(self, fence: _Optional[_Union[_resources_pb2.Fence, _Mapping[str, object]]] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class RenewSessionResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: _resources_pb2.Lease
    def __init__(self, lease: _Optional[_Union[_resources_pb2.Lease, _Mapping[str, object]]] = ...) -> None: ...

class ReleaseSessionRequest(_message.Message):
    __slots__ = ("fence",)
    FENCE_FIELD_NUMBER: _ClassVar[int]
    fence: _resources_pb2.Fence
    def __init__(self, fence: _Optional[_Union[_resources_pb2.Fence, _Mapping[str, object]]] = ...) -> None: ...

class ReleaseSessionResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: _Optional[bool] = ...) -> None: ...

class DescribeSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class DescribeSessionResponse(_message.Message):
    __slots__ = ("session_id", "head_response_id", "last_fence", "lease")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HEAD_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FENCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    head_response_id: str
    last_fence: int
    lease: _resources_pb2.Lease
    def __init__(self, session_id: _Optional[str] = ..., head_response_id: _Optional[str] = ..., last_fence: _Optional[int] = ..., lease: _Optional[_Union[_resources_pb2.Lease, _Mapping[str, object]]] = ...) -> None: ...
