from antiphon_store_client.v1 import resources_pb2 as _resources_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetChainRequest(_message.Message):
    __slots__ = ("id", "max_depth", "max_bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    id: str
    max_depth: int
    max_bytes: int
    def __init__(self, id: _Optional[str] = ..., max_depth: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class GetChainResponse(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[_resources_pb2.ResponseRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[_resources_pb2.ResponseRecord, _Mapping[str, object]]]] = ...) -> None: ...

class ForkRequest(_message.Message):
    __slots__ = ("session_id", "up_to_response_id", "new_session_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    UP_TO_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    up_to_response_id: str
    new_session_id: str
    def __init__(self, session_id: _Optional[str] = ..., up_to_response_id: _Optional[str] = ..., new_session_id: _Optional[str] = ...) -> None: ...

class ForkResponse(_message.Message):
    __slots__ = ("session_id", "head_response_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HEAD_RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    head_response_id: str
    def __init__(self, session_id: _Optional[str] = ..., head_response_id: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "parent_id", "status", "depth", "child_count", "created_at_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    CHILD_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    parent_id: str
    status: _resources_pb2.ResponseStatus
    depth: int
    child_count: int
    created_at_ms: int
    def __init__(self, id: _Optional[str] = ..., parent_id: _Optional[str] = ..., status: _Optional[_Union[_resources_pb2.ResponseStatus, str]] = ..., depth: _Optional[int] = ..., child_count: _Optional[int] = ..., created_at_ms: _Optional[int] = ...) -> None: ...

class ListTreeRequest(_message.Message):
    __slots__ = ("id", "from_root", "page_size", "page_token")
    ID_FIELD_NUMBER: _ClassVar[int]
    FROM_ROOT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    from_root: bool
    page_size: int
    page_token: str
    def __init__(self, id: _Optional[str] = ..., from_root: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTreeResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping[str, object]]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListChildrenRequest(_message.Message):
    __slots__ = ("id", "page_size", "page_token")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    page_size: int
    page_token: str
    def __init__(self, id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListChildrenResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping[str, object]]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListSiblingsRequest(_message.Message):
    __slots__ = ("id", "page_size", "page_token")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    page_size: int
    page_token: str
    def __init__(self, id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSiblingsResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping[str, object]]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListLeavesRequest(_message.Message):
    __slots__ = ("id", "page_size", "page_token")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    page_size: int
    page_token: str
    def __init__(self, id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListLeavesResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping[str, object]]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
