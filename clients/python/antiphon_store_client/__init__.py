"""A client of Antiphon's ResponseStore: responses, trees, sessions and conversations.

    with StoreClient("127.0.0.1:50051", tenant="acme") as store:
        record = store.get(response_id)

`antiphon_store_client.v1` has the messages. `AsyncStoreClient` has the same methods for asyncio.
"""

from antiphon_store_client.async_client import AsyncStoreClient
from antiphon_store_client.channels import tls_credentials
from antiphon_store_client.client import StoreClient
from antiphon_store_client.errors import (
    Aborted,
    AlreadyExists,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    StoreError,
    Unauthenticated,
    Unavailable,
)
from antiphon_store_client.ids import new_conversation_id, new_response_id

__all__ = [
    "Aborted",
    "AlreadyExists",
    "AsyncStoreClient",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "InvalidArgument",
    "NotFound",
    "PermissionDenied",
    "ResourceExhausted",
    "StoreClient",
    "StoreError",
    "Unauthenticated",
    "Unavailable",
    "new_conversation_id",
    "new_response_id",
    "tls_credentials",
]
