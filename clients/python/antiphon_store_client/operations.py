"""The operations of the store: a function for each RPC, which makes the call and does not send it.

`StoreClient` and `AsyncStoreClient` have a method for each function, with the same parameters. The comments of the
`.proto` files document each RPC. Items and metadata, which are JSON on the wire, are Python values here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from antiphon_store_client import v1
from antiphon_store_client.calls import Call, Pages, call, pages
from antiphon_store_client.ids import new_conversation_id, new_fork_id

Item = dict[str, Any]

_LEASE_MS = 30_000


def put(
    record: v1.ResponseRecord,
    *,
    precondition: v1.Precondition | None = None,
    ttl_ms: int = 0,
    idempotency_key: str = "",
) -> Call[v1.Stamp]:
    """Writes a response, and returns the fields that the store set."""
    request = v1.PutResponseRecordRequest(
        record=record, precondition=precondition, ttl_ms=ttl_ms, idempotency_key=idempotency_key
    )
    return call(request, v1.PutResponseRecordResponse, lambda answer: answer.stamp)


def get(response_id: str) -> Call[v1.ResponseRecord]:
    """Reads a response."""
    request = v1.GetResponseRecordRequest(id=response_id)
    return call(request, v1.GetResponseRecordResponse, lambda answer: answer.record)


def batch_get(response_ids: Sequence[str]) -> Call[Sequence[v1.ResponseRecord]]:
    """Reads up to 1,000 responses. Ids that cannot be read are absent from the answer."""
    request = v1.BatchGetResponseRecordsRequest(ids=response_ids)
    return call(request, v1.BatchGetResponseRecordsResponse, lambda answer: answer.records)


def update_status(
    response_id: str, status: v1.ResponseStatus, *, precondition: v1.Precondition | None = None
) -> Call[v1.Stamp]:
    """Changes the status of a response, and nothing else of it."""
    request = v1.UpdateResponseRecordStatusRequest(id=response_id, status=status, precondition=precondition)
    return call(request, v1.UpdateResponseRecordStatusResponse, lambda answer: answer.stamp)


def delete(response_id: str, *, precondition: v1.Precondition | None = None) -> Call[None]:
    """Makes a response unreadable. Responses that continue it keep their history."""
    request = v1.DeleteResponseRecordRequest(id=response_id, precondition=precondition)
    return call(request, v1.DeleteResponseRecordResponse, lambda _answer: None)


def list_responses(
    session_id: str, *, page_size: int = 0, order: v1.Order = v1.ORDER_UNSPECIFIED
) -> Pages[v1.ResponseRecord]:
    """Reads the responses of a session, newest first by default."""
    request = v1.ListResponseRecordsRequest(session_id=session_id, page_size=page_size, order=order)
    return pages(request, v1.ListResponseRecordsResponse, lambda answer: answer.records)


def list_items(response_id: str, *, page_size: int = 0, order: v1.Order = v1.ORDER_UNSPECIFIED) -> Pages[Item]:
    """Reads the input items of a response, newest first by default."""
    request = v1.ListInputItemsRequest(response_id=response_id, page_size=page_size, order=order)
    return pages(request, v1.ListInputItemsResponse, lambda answer: _items(answer.items))


def resolve_items(item_ids: Sequence[str]) -> Call[v1.ResolveItemsResponse]:
    """Finds items by id in all responses and conversations of the tenant."""
    return call(v1.ResolveItemsRequest(item_ids=item_ids), v1.ResolveItemsResponse, lambda answer: answer)


def chain(response_id: str, *, max_depth: int = 0, max_bytes: int = 0) -> Call[Sequence[v1.ResponseRecord]]:
    """Reads a response and all its ancestors, root first."""
    request = v1.GetChainRequest(id=response_id, max_depth=max_depth, max_bytes=max_bytes)
    return call(request, v1.GetChainResponse, lambda answer: answer.records)


def fork(
    session_id: str = "", *, up_to_response_id: str = "", new_session_id: str | None = None
) -> Call[v1.ForkResponse]:
    """Makes a session with the history of `session_id`, or of the response `up_to_response_id`."""
    request = v1.ForkRequest(
        session_id=session_id,
        up_to_response_id=up_to_response_id,
        new_session_id=new_session_id or new_fork_id(up_to_response_id or session_id),
    )
    return call(request, v1.ForkResponse, lambda answer: answer)


def tree(response_id: str, *, from_root: bool = False, page_size: int = 0) -> Pages[v1.Node]:
    """Reads the tree below a response, or the whole tree, breadth first."""
    request = v1.ListTreeRequest(id=response_id, from_root=from_root, page_size=page_size)
    return pages(request, v1.ListTreeResponse, lambda answer: answer.nodes)


def children(response_id: str, *, page_size: int = 0) -> Pages[v1.Node]:
    """Reads the direct continuations of a response, oldest first."""
    request = v1.ListChildrenRequest(id=response_id, page_size=page_size)
    return pages(request, v1.ListChildrenResponse, lambda answer: answer.nodes)


def siblings(response_id: str, *, page_size: int = 0) -> Pages[v1.Node]:
    """Reads the other children of a response's parent, oldest first."""
    request = v1.ListSiblingsRequest(id=response_id, page_size=page_size)
    return pages(request, v1.ListSiblingsResponse, lambda answer: answer.nodes)


def leaves(response_id: str, *, page_size: int = 0) -> Pages[v1.Node]:
    """Reads the responses without children below a response."""
    request = v1.ListLeavesRequest(id=response_id, page_size=page_size)
    return pages(request, v1.ListLeavesResponse, lambda answer: answer.nodes)


def acquire_session(session_id: str, *, holder: str, wait_ms: int, ttl_ms: int = _LEASE_MS) -> Call[v1.Lease]:
    """Takes the lease of a session, waiting up to `wait_ms` for it. Raises Aborted when another holder keeps it."""
    request = v1.AcquireSessionRequest(session_id=session_id, holder=holder, ttl_ms=ttl_ms, wait_ms=wait_ms)
    return call(request, v1.AcquireSessionResponse, lambda answer: answer.lease)


def try_acquire_session(session_id: str, *, holder: str, ttl_ms: int = _LEASE_MS) -> Call[v1.Lease]:
    """Takes the lease of a session without waiting. Raises Aborted when another holder has it."""
    request = v1.TryAcquireSessionRequest(session_id=session_id, holder=holder, ttl_ms=ttl_ms)
    return call(request, v1.TryAcquireSessionResponse, lambda answer: answer.lease)


def renew_session(fence: v1.Fence, *, ttl_ms: int = _LEASE_MS) -> Call[v1.Lease]:
    """Extends a lease. Raises Aborted when it expired or was taken over."""
    return call(
        v1.RenewSessionRequest(fence=fence, ttl_ms=ttl_ms), v1.RenewSessionResponse, lambda answer: answer.lease
    )


def release_session(fence: v1.Fence) -> Call[bool]:
    """Releases a lease. False: it had already ended."""
    return call(v1.ReleaseSessionRequest(fence=fence), v1.ReleaseSessionResponse, lambda answer: answer.released)


def describe_session(session_id: str) -> Call[v1.DescribeSessionResponse]:
    """Reads the head, the last fence and the lease of a session."""
    return call(v1.DescribeSessionRequest(session_id=session_id), v1.DescribeSessionResponse, lambda answer: answer)


def create_conversation(
    *,
    conversation_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    items: Sequence[Item] = (),
    ttl_ms: int = 0,
) -> Call[v1.Conversation]:
    """Creates a conversation, optionally with up to 20 first items."""
    request = v1.CreateConversationRequest(
        id=conversation_id or new_conversation_id(), metadata=_json(metadata or {}), items=_json(items), ttl_ms=ttl_ms
    )
    return call(request, v1.CreateConversationResponse, lambda answer: answer.conversation)


def get_conversation(conversation_id: str) -> Call[v1.Conversation]:
    """Reads a conversation's metadata."""
    request = v1.GetConversationRequest(id=conversation_id)
    return call(request, v1.GetConversationResponse, lambda answer: answer.conversation)


def update_conversation(
    conversation_id: str, metadata: Mapping[str, str], *, expected_version: int | None = None
) -> Call[v1.Conversation]:
    """Replaces a conversation's metadata."""
    request = v1.UpdateConversationRequest(
        id=conversation_id, metadata=_json(metadata), expected_version=expected_version
    )
    return call(request, v1.UpdateConversationResponse, lambda answer: answer.conversation)


def delete_conversation(conversation_id: str) -> Call[None]:
    """Deletes a conversation, not the responses that were made in it."""
    return call(v1.DeleteConversationRequest(id=conversation_id), v1.DeleteConversationResponse, lambda _answer: None)


def add_conversation_items(
    conversation_id: str, items: Sequence[Item], *, fence: v1.Fence | None = None, idempotency_key: str = ""
) -> Call[list[Item]]:
    """Appends up to 20 items, and returns them as stored. A key makes the call repeatable."""
    request = v1.AddConversationItemsRequest(
        conversation_id=conversation_id, items=_json(items), fence=fence, idempotency_key=idempotency_key
    )
    return call(request, v1.AddConversationItemsResponse, lambda answer: _items(answer.items))


def list_conversation_items(
    conversation_id: str, *, page_size: int = 0, order: v1.Order = v1.ORDER_UNSPECIFIED
) -> Pages[Item]:
    """Reads the items of a conversation, newest first by default."""
    request = v1.ListConversationItemsRequest(conversation_id=conversation_id, page_size=page_size, order=order)
    return pages(request, v1.ListConversationItemsResponse, lambda answer: _items(answer.items))


def get_conversation_item(conversation_id: str, item_id: str) -> Call[Item]:
    """Reads one item of a conversation."""
    request = v1.GetConversationItemRequest(conversation_id=conversation_id, item_id=item_id)
    return call(request, v1.GetConversationItemResponse, lambda answer: _item(answer.item))


def delete_conversation_item(conversation_id: str, item_id: str) -> Call[v1.Conversation]:
    """Removes one item from a conversation's context."""
    request = v1.DeleteConversationItemRequest(conversation_id=conversation_id, item_id=item_id)
    return call(request, v1.DeleteConversationItemResponse, lambda answer: answer.conversation)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _item(data: bytes) -> Item:
    item: Item = json.loads(data)
    return item


def _items(data: bytes) -> list[Item]:
    items: list[Item] = json.loads(data or b"[]")
    return items
