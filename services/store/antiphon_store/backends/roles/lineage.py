"""The operations behind `antiphon_core.ports.lineage`.

A `Position` orders whatever is paged, member by member: depth (where the order is by depth), then time of birth, then
id. Ids are compared as ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from antiphon_core.ports.lineage import Fork, ForkSource, ResolvedItem, TreeNode
from antiphon_core.ports.store import Order, Precondition, Record, Stamp, Status

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a page ended: the place of its last response in every order that there is."""

    depth: int
    created_at_ms: int
    id: str


@dataclass(frozen=True, slots=True)
class Slice(Generic[_Value]):
    """So many values of a longer line, and whether there are more."""

    values: Sequence[_Value]
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Twig:
    """One stored response as the shape of a tree needs it. `is_readable` as of the moment of reading."""

    id: str
    parent_id: str | None
    status: Status
    depth: int
    created_at_ms: int
    is_readable: bool


class LineageAtoms(Protocol):
    """The atoms of lineage. Each read is of one moment."""

    async def fetch_many(self, tenant: str, ids: Sequence[str], *, max_bytes: int) -> Sequence[Record]:
        """The readable ones of distinct `ids`, in their order. LimitExceeded: over `max_bytes` of body and items."""

    async def change_status(self, tenant: str, response_id: str, status: Status, precondition: Precondition) -> Stamp:
        """The fence and the precondition, the status, the next version, in one step. The same change again changes
        nothing. ResponseNotFound, VersionMismatch, StatusMismatch, StaleFence."""

    async def session_records(
        self, tenant: str, session_id: str, *, after: Position | None, limit: int, order: Order, max_bytes: int
    ) -> Slice[Record]:
        """The readable records with this `session_id`, ordered by birth, depth and id, in either direction. A slice
        ends before `max_bytes`, but has at least one record when there is one."""

    async def find_items(self, tenant: str, item_ids: Sequence[str], *, max_bytes: int) -> Sequence[ResolvedItem]:
        """Those of distinct `item_ids` that are in a readable response, in their order, and those that were added to a
        conversation and stand in its context. They are found by `Write.item_ids`. Of several nodes the first by birth
        and id counts. LimitExceeded: the items are over `max_bytes`."""

    async def fork(self, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        """In one step: what the source is now, that the new session is free, its head, and the memory of this fork: the
        same one again is answered by that alone. A session of a name that belongs to another tree gets a pointer then.
        The cost does not depend on the length of the chain.

        ResponseNotFound, PreviousResponseNotReady, NotFound, InvalidRequest, AlreadyExists, SessionLocked."""

    async def subtree(self, tenant: str, response_id: str, *, from_root: bool, max_nodes: int) -> Sequence[Twig]:
        """A readable response and everything stored below it (below its root with `from_root`), in no order, readable
        or not. ResponseNotFound. LimitExceeded: more than `max_nodes`."""

    async def children(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        """The readable children of a readable response, ordered by birth and id. ResponseNotFound."""

    async def siblings(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        """As `children` of the parent, readable or not, without the response itself. ResponseNotFound."""
