from antiphon_store_client.v1 import resources_pb2 as _resources_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PutResponseRecordRequest(_message.Message):
    __slots__ = ("record", "precondition", "ttl_ms", "idempotency_key")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    record: _resources_pb2.ResponseRecord
    precondition: _resources_pb2.Precondition
    ttl_ms: int
    idempotency_key: str
    def __init__(self, record: _Optional[_Union[_resources_pb2.ResponseRecord, _Mapping[str, object]]] = ..., precondition: _Optional[_Union[_resources_pb2.Precondition, _Mapping[str, object]]] = ..., ttl_ms: _Optional[int] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class PutResponseRecordResponse(_message.Message):
    __slots__ = ("stamp",)
    STAMP_FIELD_NUMBER: _ClassVar[int]
    stamp: _resources_pb2.Stamp
    def __init__(self, stamp: _Optional[_Union[_resources_pb2.Stamp, _Mapping[str, object]]] = ...) -> None: ...

class GetResponseRecordRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetResponseRecordResponse(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: _resources_pb2.ResponseRecord
    def __init__(self, record: _Optional[_Union[_resources_pb2.ResponseRecord, _Mapping[str, object]]] = ...) -> None: ...

class BatchGetResponseRecordsRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchGetResponseRecordsResponse(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[_resources_pb2.ResponseRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[_resources_pb2.ResponseRecord, _Mapping[str, object]]]] = ...) -> None: ...

class UpdateResponseRecordStatusRequest(_message.Message):
    __slots__ = ("id", "status", "precondition")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: _resources_pb2.ResponseStatus
    precondition: _resources_pb2.Precondition
    def __init__(self, id: _Optional[str] = ..., status: _Optional[_Union[_resources_pb2.ResponseStatus, str]] = ..., precondition: _Optional[_Union[_resources_pb2.Precondition, _Mapping[str, object]]] = ...) -> None: ...

class UpdateResponseRecordStatusResponse(_message.Message):
    __slots__ = ("stamp",)
    STAMP_FIELD_NUMBER: _ClassVar[int]
    stamp: _resources_pb2.Stamp
    def __init__(self, stamp: _Optional[_Union[_resources_pb2.Stamp, _Mapping[str, object]]] = ...) -> None: ...

class DeleteResponseRecordRequest(_message.Message):
    __slots__ = ("id", "precondition")
    ID_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    id: str
    precondition: _resources_pb2.Precondition
    def __init__(self, id: _Optional[str] = ..., precondition: _Optional[_Union[_resources_pb2.Precondition, _Mapping[str, object]]] = ...) -> None: ...

class DeleteResponseRecordResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListResponseRecordsRequest(_message.Message):
    __slots__ = ("session_id", "page_size", "page_token", "order")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    page_size: int
    page_token: str
    order: _resources_pb2.Order
    def __init__(self, session_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., order: _Optional[_Union[_resources_pb2.Order, str]] = ...) -> None: ...

class ListResponseRecordsResponse(_message.Message):
    __slots__ = ("records", "next_page_token")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[_resources_pb2.ResponseRecord]
    next_page_token: str
    def __init__(self, records: _Optional[_Iterable[_Union[_resources_pb2.ResponseRecord, _Mapping[str, object]]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListInputItemsRequest(_message.Message):
    __slots__ = ("response_id", "page_size", "page_token", "order")
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    response_id: str
    page_size: int
    page_token: str
    order: _resources_pb2.Order
    def __init__(self, response_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., order: _Optional[_Union[_resources_pb2.Order, str]] = ...) -> None: ...

class ListInputItemsResponse(_message.Message):
    __slots__ = ("items", "first_id", "last_id", "next_page_token")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    FIRST_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    items: bytes
    first_id: str
    last_id: str
    next_page_token: str
    def __init__(self, items: _Optional[bytes] = ..., first_id: _Optional[str] = ..., last_id: _Optional[str] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ResolveItemsRequest(_message.Message):
    __slots__ = ("item_ids",)
    ITEM_IDS_FIELD_NUMBER: _ClassVar[int]
    item_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, item_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ResolvedItem(_message.Message):
    __slots__ = ("id", "response_id", "item")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    id: str
    response_id: str
    item: bytes
    def __init__(self, id: _Optional[str] = ..., response_id: _Optional[str] = ..., item: _Optional[bytes] = ...) -> None: ...

class ResolveItemsResponse(_message.Message):
    __slots__ = ("items", "missing_ids")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    MISSING_IDS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ResolvedItem]
    missing_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, items: _Optional[_Iterable[_Union[ResolvedItem, _Mapping[str, object]]]] = ..., missing_ids: _Optional[_Iterable[str]] = ...) -> None: ...
