from antiphon_store_client.v1 import resources_pb2 as _resources_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Conversation(_message.Message):
    __slots__ = ("id", "metadata", "created_at_ms", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    metadata: bytes
    created_at_ms: int
    version: int
    def __init__(self, id: _Optional[str] = ..., metadata: _Optional[bytes] = ..., created_at_ms: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class CreateConversationRequest(_message.Message):
    __slots__ = ("id", "metadata", "items", "ttl_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    metadata: bytes
    items: bytes
    ttl_ms: int
    def __init__(self, id: _Optional[str] = ..., metadata: _Optional[bytes] = ..., items: _Optional[bytes] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class CreateConversationResponse(_message.Message):
    __slots__ = ("conversation",)
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    conversation: Conversation
    def __init__(self, conversation: _Optional[_Union[Conversation, _Mapping[str, object]]] = ...) -> None: ...

class GetConversationRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetConversationResponse(_message.Message):
    __slots__ = ("conversation",)
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    conversation: Conversation
    def __init__(self, conversation: _Optional[_Union[Conversation, _Mapping[str, object]]] = ...) -> None: ...

class UpdateConversationRequest(_message.Message):
    __slots__ = ("id", "metadata", "expected_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    metadata: bytes
    expected_version: int
    def __init__(self, id: _Optional[str] = ..., metadata: _Optional[bytes] = ..., expected_version: _Optional[int] = ...) -> None: ...

class UpdateConversationResponse(_message.Message):
    __slots__ = ("conversation",)
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    conversation: Conversation
    def __init__(self, conversation: _Optional[_Union[Conversation, _Mapping[str, object]]] = ...) -> None: ...

class DeleteConversationRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteConversationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddConversationItemsRequest(_message.Message):
    __slots__ = ("conversation_id", "items", "fence", "idempotency_key")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    items: bytes
    fence: _resources_pb2.Fence
    idempotency_key: str
    def __init__(self, conversation_id: _Optional[str] = ..., items: _Optional[bytes] = ..., fence: _Optional[_Union[_resources_pb2.Fence, _Mapping[str, object]]] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class AddConversationItemsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: bytes
    def __init__(self, items: _Optional[bytes] = ...) -> None: ...

class ListConversationItemsRequest(_message.Message):
    __slots__ = ("conversation_id", "page_size", "page_token", "order")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    page_size: int
    page_token: str
    order: _resources_pb2.Order
    def __init__(self, conversation_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., order: _Optional[_Union[_resources_pb2.Order, str]] = ...) -> None: ...

class ListConversationItemsResponse(_message.Message):
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

class GetConversationItemRequest(_message.Message):
    __slots__ = ("conversation_id", "item_id")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    item_id: str
    def __init__(self, conversation_id: _Optional[str] = ..., item_id: _Optional[str] = ...) -> None: ...

class GetConversationItemResponse(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: bytes
    def __init__(self, item: _Optional[bytes] = ...) -> None: ...

class DeleteConversationItemRequest(_message.Message):
    __slots__ = ("conversation_id", "item_id")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    item_id: str
    def __init__(self, conversation_id: _Optional[str] = ..., item_id: _Optional[str] = ...) -> None: ...

class DeleteConversationItemResponse(_message.Message):
    __slots__ = ("conversation",)
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    conversation: Conversation
    def __init__(self, conversation: _Optional[_Union[Conversation, _Mapping[str, object]]] = ...) -> None: ...
