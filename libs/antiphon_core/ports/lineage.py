"""The port of trees of responses: forks, trees, lists, and look-ups of responses and items by id.

Another tenant's ids do not exist. A cursor is opaque and is valid only for the tenant, the operation and the arguments
(except the page size) that it was returned for. Otherwise the call raises InvalidRequest with the field `cursor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from antiphon_core import limits
from antiphon_core.ports.checks import (
    Cursor,
    ItemId,
    ListLimit,
    ResponseId,
    SessionId,
    Tenant,
    count_within,
    invalid,
    within,
)
from antiphon_core.ports.store import NO_PRECONDITION, Order, Precondition, Record, Stamp, Status

LOOKUP = count_within(1, limits.LOOKUP_ITEMS_MAX)


@dataclass(frozen=True, slots=True)
class ForkSource:
    """The response that a fork continues: a session's head, any response, or one that was made in this session."""

    session_id: SessionId | None = None
    up_to_response_id: ResponseId | None = None

    def check(self, _field: str) -> None:
        if self.session_id is None and self.up_to_response_id is None:
            raise invalid("session_id", "Name what to fork: 'session_id', 'up_to_response_id' or both.")


@dataclass(frozen=True, slots=True)
class Fork:
    """A session that was made by a fork, and its first head."""

    session_id: str
    head_id: str


@dataclass(frozen=True, slots=True)
class Node:
    """One response in a tree, without its content.

    `status` is None for a response that was deleted or has expired. Such a node is shown only if a response below it is
    readable. `child_count` is the number of readable children.
    """

    id: str
    parent_id: str | None
    status: Status | None
    depth: int
    child_count: int
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class NodePage:
    """`next_cursor` is None on the last page."""

    nodes: Sequence[Node]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """`next_cursor` is None on the last page."""

    records: Sequence[Record]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedItem:
    """An item as a JSON object, and the id of the response that has it. For an item that a client added to a
    conversation this is the id of the record that holds it (`conversations.ADDED_ITEMS`)."""

    id: str
    response_id: str
    item: bytes


@dataclass(frozen=True, slots=True)
class ResolvedItems:
    """The items that were found, in the order of the requested ids, and the ids that were not found."""

    items: Sequence[ResolvedItem]
    missing_ids: Sequence[str] = ()


class LineageStore(Protocol):
    """Operations on trees of responses. A response is *readable* if it is neither deleted nor expired."""

    async def batch_get(self, tenant: Tenant, ids: Annotated[Sequence[ResponseId], LOOKUP]) -> Sequence[Record]:
        """The readable ones of up to LOOKUP_ITEMS_MAX responses, each once, in the order of `ids`.

        LimitExceeded: together they are larger than PAGE_BYTES_MAX."""

    async def update_status(
        self, tenant: Tenant, response_id: ResponseId, status: Status, *, precondition: Precondition = NO_PRECONDITION
    ) -> Stamp:
        """Changes the status of a response under `precondition`, and nothing else of it. Idempotent: a response that
        already has the status, at the version that this change would have made, stays unchanged.

        ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""

    async def list_responses(
        self,
        tenant: Tenant,
        session_id: SessionId,
        *,
        cursor: Cursor | None = None,
        limit: ListLimit = limits.LIST_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> RecordPage:
        """The readable responses that were made in a session, by time of creation. A page has at most PAGE_BYTES_MAX
        bytes, but at least one record if there is one. An unknown session has no responses."""

    async def resolve_items(self, tenant: Tenant, item_ids: Annotated[Sequence[ItemId], LOOKUP]) -> ResolvedItems:
        """Up to LOOKUP_ITEMS_MAX items by their ids, from readable responses and from items that were added to
        conversations and not deleted there. If several have an item of the same id, the oldest counts.

        LimitExceeded: together they are larger than PAGE_BYTES_MAX."""

    async def fork(self, tenant: Tenant, source: ForkSource, *, new_session_id: SessionId | None = None) -> Fork:
        """Makes a session whose history is that of the source, without copying it. Idempotent with a `new_session_id`,
        even if either session has been continued meanwhile. Without it, only retries inside the client are the same
        fork.

        ResponseNotFound; PreviousResponseNotReady: the response has not ended; NotFound: the source session has no
        head; AlreadyExists: the new session is in use; SessionLocked: a turn is running in the new session."""

    async def tree(
        self,
        tenant: Tenant,
        response_id: ResponseId,
        *,
        from_root: bool = False,
        cursor: Cursor | None = None,
        max_nodes: Annotated[int, within(1, limits.TREE_NODES_MAX)] = limits.TREE_NODES_DEFAULT,
    ) -> NodePage:
        """A readable response and all responses below it, or the whole tree that it is in: by depth, then by time of
        creation. A response that is not readable is included if one below it is.

        A page of a large tree may have fewer than `max_nodes`, even none, and a cursor: it reads TREE_SCAN_NODES_MAX
        responses at most, shown or not. `child_count` counts the first TREE_CHILDREN_NODES_MAX children.
        ResponseNotFound."""

    async def children(
        self,
        tenant: Tenant,
        response_id: ResponseId,
        *,
        cursor: Cursor | None = None,
        limit: ListLimit = limits.LIST_ITEMS_DEFAULT,
    ) -> NodePage:
        """The readable children of a readable response, oldest first; pages as in `tree`. ResponseNotFound."""

    async def siblings(
        self,
        tenant: Tenant,
        response_id: ResponseId,
        *,
        cursor: Cursor | None = None,
        limit: ListLimit = limits.LIST_ITEMS_DEFAULT,
    ) -> NodePage:
        """The other readable children of a readable response's parent, oldest first; a root has none. Pages as in
        `tree`. ResponseNotFound."""

    async def leaves(
        self,
        tenant: Tenant,
        response_id: ResponseId,
        *,
        cursor: Cursor | None = None,
        limit: ListLimit = limits.LIST_ITEMS_DEFAULT,
    ) -> NodePage:
        """The readable responses below a readable one, itself excluded, that have no readable response below them,
        oldest first. Pages as in `tree`. ResponseNotFound."""
