"""The shape of the store's trees as its callers see it: forks, trees, lists, and what is found in any of them.

Another tenant's ids do not exist. Cursors are opaque and good for the question that they came with alone (tenant,
operation, arguments other than the page's size): any other is an InvalidRequest with the field `cursor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon_core import limits
from antiphon_core.ports.store import NO_PRECONDITION, Order, Precondition, Record, Stamp, Status


@dataclass(frozen=True, slots=True)
class ForkSource:
    """The point that a new session begins from: a session's head, a response, or a response that was made in a
    session."""

    session_id: str | None = None
    up_to_response_id: str | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """A session that a fork made, and the response that it began from."""

    session_id: str
    head_id: str


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One response in a tree, without its content.

    `status` is None for one that was deleted or has expired: it shows only because something below it can be read.
    `child_count` counts the direct continuations that can be read.
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

    nodes: Sequence[TreeNode]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """`next_cursor` is None on the last page."""

    records: Sequence[Record]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedItem:
    """An item, as a JSON object, and the response that it was found in: for one that was added to a conversation the id
    that stands for the addition in chains."""

    id: str
    response_id: str
    item: bytes


@dataclass(frozen=True, slots=True)
class ResolvedItems:
    """The items that were found, in the order of the question, and the ids of those that were not."""

    items: Sequence[ResolvedItem]
    missing_ids: Sequence[str] = ()


class LineageStore(Protocol):
    """Operations on the shape of trees. `readable`: neither deleted nor expired."""

    async def batch_get(self, tenant: str, ids: Sequence[str]) -> Sequence[Record]:
        """The readable ones of up to LOOKUP_ITEMS_MAX responses, each once, in the order of `ids`.

        LimitExceeded: together they are over PAGE_BYTES_MAX."""

    async def update_status(
        self, tenant: str, response_id: str, status: Status, *, precondition: Precondition = NO_PRECONDITION
    ) -> Stamp:
        """Moves a response to another status under `precondition`, its content untouched. One that has the status
        already, at the version that this change would have made, stays as it is.

        ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""

    async def list_responses(
        self,
        tenant: str,
        session_id: str,
        *,
        cursor: str | None = None,
        limit: int = limits.LIST_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> RecordPage:
        """The readable responses that were made in a session, by their time of birth. A page ends early rather than
        be larger than PAGE_BYTES_MAX, but has at least one record. An unknown session has none."""

    async def resolve_items(self, tenant: str, item_ids: Sequence[str]) -> ResolvedItems:
        """Up to LOOKUP_ITEMS_MAX items by their ids, from any readable response, and those that were added to a
        conversation as long as they stand there: from the oldest where there are several.

        LimitExceeded: together they are over PAGE_BYTES_MAX."""

    async def fork(self, tenant: str, source: ForkSource, *, new_session_id: str | None = None) -> Fork:
        """Makes a session whose history is that of the source. Nothing is copied, whatever the length. The same fork
        again gives the same answer, also when either session went on meanwhile; without `new_session_id` only a
        repetition inside the client is the same fork.

        ResponseNotFound; PreviousResponseNotReady: the response has not ended, and cannot be continued; NotFound: the
        source session has nothing to fork; AlreadyExists: the new session is in use;
        SessionLocked: a turn is running in the new session."""

    async def tree(
        self,
        tenant: str,
        response_id: str,
        *,
        from_root: bool = False,
        cursor: str | None = None,
        max_nodes: int = limits.TREE_NODES_DEFAULT,
    ) -> NodePage:
        """A readable response and all below it, or the whole tree that it is part of: by depth, then by birth. What
        cannot be read shows where something below it can.

        ResponseNotFound. LimitExceeded: more than TREE_WALK_NODES_MAX responses lie below."""

    async def children(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        """The readable direct continuations of a readable response, oldest first. ResponseNotFound."""

    async def siblings(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        """The other readable children of a readable response's parent, oldest first; a root has none.
        ResponseNotFound."""

    async def leaves(
        self, tenant: str, response_id: str, *, cursor: str | None = None, limit: int = limits.LIST_ITEMS_DEFAULT
    ) -> NodePage:
        """The readable responses below a readable one, itself excluded, that have nothing readable below them, oldest
        first.

        ResponseNotFound. LimitExceeded: as in `tree`."""
