"""The store in this process's memory: a peer of the other engines, gone with the process.

Every atom is one synchronous step of the event loop, and therefore indivisible. Nodes point at their parents and
children, so a fork shares its ancestors by reference and a chain is a walk without look-ups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.errors import AlreadyExists, PreviousResponseNotFound, ResponseNotFound, StoreUnavailable
from antiphon_core.jsons import join_arrays
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.ports.store import (
    Fence,
    History,
    Lease,
    Precondition,
    Record,
    Session,
    Stamp,
    TurnRequest,
    TurnStart,
)
from antiphon_core.spending import Accounts
from antiphon_store.backends import admission, conversations, job_states, leases
from antiphon_store.backends import status as statuses
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.bounds import ChainBounds, require_room
from antiphon_store.backends.conversations import StoredConversation
from antiphon_store.backends.idempotency import KeyUse
from antiphon_store.backends.leases import NEVER_USED, SessionState
from antiphon_store.backends.memory_catalogue import Catalogue
from antiphon_store.backends.memory_conversations import MemoryConversations
from antiphon_store.backends.memory_event_logs import MemoryEventLogs, MemoryLog
from antiphon_store.backends.memory_idempotency import MemoryIdempotency
from antiphon_store.backends.memory_jobs import MemoryJobs, MemoryJobTable
from antiphon_store.backends.memory_lineage import MemoryLineage
from antiphon_store.backends.memory_retention import MemoryRetention
from antiphon_store.backends.memory_spending import MemorySpending

_Key = tuple[str, str]  # tenant, id


@dataclass(slots=True, eq=False)
class _Node:
    key: _Key
    record: Record
    parent: _Node | None
    children: dict[_Key, _Node] = field(default_factory=dict)
    deleted: bool = False

    def is_expired(self, now_ms: int) -> bool:
        return admission.is_expired(self.record.expires_at_ms, now_ms)

    def is_readable(self, now_ms: int) -> bool:
        return not self.deleted and not self.is_expired(now_ms)

    def subtree(self) -> Iterator[_Node]:
        """The node and everything stored below it."""
        waiting = [self]
        while waiting:
            each = waiting.pop()
            yield each
            waiting.extend(each.children.values())


class MemoryBackend(
    MemoryEventLogs,
    MemoryJobs,
    MemoryRetention,
    MemoryLineage,
    MemoryConversations,
    MemoryIdempotency,
    MemorySpending,
):
    """Implements `base.Backend`."""

    durability = Durability.MEMORY

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._nodes: dict[_Key, _Node] = {}
        self._sessions: dict[_Key, SessionState] = {}
        self._heads: Counter[_Key] = Counter()  # how many sessions have this response as their head
        self._logs: dict[_Key, MemoryLog] = {}
        self._job_table = MemoryJobTable()
        self._conversations: dict[_Key, StoredConversation] = {}
        self._removed_items: dict[_Key, set[str]] = {}
        self._key_uses: dict[_Key, KeyUse] = {}
        self._forks: dict[_Key, tuple[ForkSource, Fork]] = {}
        self._catalogue = Catalogue()
        self._accounts = Accounts()
        self._open = False

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False

    async def ready(self) -> None:
        self._now_ms()

    # ---- Records ----

    async def put(self, tenant: str, write: Write) -> Stamp:
        return self._put(tenant, write, self._now_ms())

    async def fetch(self, tenant: str, response_id: str) -> Record:
        return self._require(tenant, response_id, self._now_ms()).record

    async def remove(self, tenant: str, response_id: str, precondition: Precondition) -> None:
        now_ms = self._now_ms()
        node = self._require(tenant, response_id, now_ms)
        self._require_fence(tenant, precondition.fence, now_ms)
        admission.require_precondition(node.record, precondition)
        node.deleted = True
        self._catalogue.drop(node.key)
        self._reclaim(node, now_ms)

    async def ancestry(self, tenant: str, response_id: str, *, max_depth: int, max_bytes: int) -> Sequence[Record]:
        node = self._require(tenant, response_id, self._now_ms())
        bounds = ChainBounds(response_id, max_depth, max_bytes)
        chain = _chain(node, bounds)
        bounds.require_bytes(sum(len(each.body) + len(each.input_items) + len(each.output_items) for each in chain))
        return chain

    # ---- Sessions ----

    async def acquire_lease(self, tenant: str, session_id: str, *, holder: str, ttl_ms: int) -> Lease:
        state = leases.acquire(
            self._session(tenant, session_id), session_id, holder=holder, ttl_ms=ttl_ms, now_ms=self._now_ms()
        )
        self._sessions[tenant, session_id] = state
        return leases.granted(state, session_id)

    async def renew_lease(self, tenant: str, fence: Fence, *, ttl_ms: int) -> Lease:
        state = leases.renew(self._session(tenant, fence.session_id), fence, ttl_ms=ttl_ms, now_ms=self._now_ms())
        self._sessions[tenant, fence.session_id] = state
        return leases.granted(state, fence.session_id)

    async def release_lease(self, tenant: str, fence: Fence) -> bool:
        state = self._session(tenant, fence.session_id)
        if not leases.holds(state, fence, self._now_ms()):
            return False
        self._sessions[tenant, fence.session_id] = leases.released(state)
        return True

    async def describe_session(self, tenant: str, session_id: str) -> Session:
        now_ms = self._now_ms()
        state = self._session(tenant, session_id)
        head = self._head(tenant, state, now_ms)
        return Session(
            id=session_id,
            head_id=head.record.id if head else None,
            last_fence=state.last_fence,
            lease=leases.lease_of(state, session_id, now_ms),
        )

    # ---- Turns ----

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        now_ms = self._now_ms()
        session_id = request.session_id
        if session_id is None:
            bounds = ChainBounds(request.previous_response_id or "", request.max_depth, request.max_bytes)
            return TurnStart(_history(self._previous(tenant, request, now_ms), bounds))
        state = leases.acquire(
            self._session(tenant, session_id),
            session_id,
            holder=request.holder,
            ttl_ms=request.lease_ttl_ms,
            now_ms=now_ms,
        )
        bounds = ChainBounds(session_id, request.max_depth, request.max_bytes)
        before = self._context(tenant, session_id, bounds, now_ms)
        self._sessions[tenant, session_id] = state
        return TurnStart(before, leases.granted(state, session_id))

    async def commit_turn(self, tenant: str, write: Write, fence: Fence | None) -> Stamp:
        now_ms = self._now_ms()
        if fence is None:
            return self._put(tenant, write, now_ms)
        state = self._session(tenant, fence.session_id)
        stamp = self._put(tenant, write, now_ms, fence=fence)
        if leases.holds(state, fence, now_ms):  # not so when this is a replay
            self._move_head(tenant, fence.session_id, leases.released(state), write.record.id, now_ms)
        return stamp

    # ---- Within an atom ----

    def _now_ms(self) -> int:
        if not self._open:
            raise StoreUnavailable("The store is closed.")
        return self._clock.now_ms()

    def _session(self, tenant: str, session_id: str) -> SessionState:
        return self._sessions.get((tenant, session_id), NEVER_USED)

    def _require_fence(self, tenant: str, fence: Fence | None, now_ms: int) -> None:
        """StaleFence unless the lease of the fence lives: that of a job, when there is one of this id, or a session."""
        if fence is None:
            return
        job = self._job_table.find(tenant, fence.session_id, now_ms)
        if job is not None:
            job_states.require(job.stored, fence)
        else:
            leases.require(self._session(tenant, fence.session_id), fence, now_ms)

    def _readable(self, tenant: str, response_id: str, now_ms: int) -> _Node | None:
        node = self._nodes.get((tenant, response_id))
        return node if node and node.is_readable(now_ms) else None

    def _require(self, tenant: str, response_id: str, now_ms: int) -> _Node:
        node = self._readable(tenant, response_id, now_ms)
        if node is None:
            raise ResponseNotFound.of(response_id)
        return node

    def _head(self, tenant: str, state: SessionState, now_ms: int) -> _Node | None:
        """What a turn in the session continues: its head, deleted or not, until its time is over."""
        node = self._nodes.get((tenant, state.head_id)) if state.head_id else None
        return node if node and not node.is_expired(now_ms) else None

    def _previous(self, tenant: str, request: TurnRequest, now_ms: int) -> _Node | None:
        if request.previous_response_id is None:
            return None
        node = self._readable(tenant, request.previous_response_id, now_ms)
        if node is None:
            raise PreviousResponseNotFound.of(request.previous_response_id)
        statuses.require_ended(node.record.id, node.record.status)
        return node

    def _put(self, tenant: str, write: Write, now_ms: int, *, fence: Fence | None = None) -> Stamp:
        """`fence` is required besides the precondition's."""
        node = self._readable(tenant, write.record.id, now_ms)
        existing = node.record if node else None
        if existing is not None and admission.is_replay(existing, write):
            return admission.stamp_of(existing)
        fences = [each for each in (fence, write.precondition.fence) if each is not None]
        for each in fences:
            self._require_fence(tenant, each, now_ms)
        admission.require_admission(existing, write)
        append_end = self._end_of_log(tenant, write.log_end, now_ms)
        if node is None:
            self._require_room(tenant, write, now_ms)
            head_ids = [self._session(tenant, each.session_id).head_id for each in fences]
            node = self._insert(tenant, write, now_ms, head_ids)
        else:
            node.record = admission.stamped(existing, write, depth=0, now_ms=now_ms)
            self._catalogue.file(tenant, write)
        append_end()
        return admission.stamp_of(node.record)

    def _require_room(self, tenant: str, write: Write, now_ms: int) -> None:
        session_id, most = write.record.session_id, write.session_responses_max
        if session_id is not None and most is not None:
            made = self._catalogue.of_session(tenant, session_id)
            require_room(session_id, sum(self._nodes[key].is_readable(now_ms) for key in made), most)

    def _insert(self, tenant: str, write: Write, now_ms: int, head_ids: Collection[str | None]) -> _Node:
        """`head_ids` may be continued although they were deleted: the heads of sessions that the writer holds."""
        parent = self._parent(tenant, write.record, now_ms, head_ids)
        key = (tenant, write.record.id)
        if key in self._nodes:
            self._reclaim(self._nodes[key], now_ms)
        if key in self._nodes:
            raise AlreadyExists.of(write.record.id)
        depth = parent.record.depth + 1 if parent else 0
        record = admission.stamped(None, write, depth=depth, now_ms=now_ms)
        node = self._nodes[key] = _Node(key, record, parent)
        self._catalogue.file(tenant, write)
        if parent is not None:
            parent.children[key] = node
        return node

    def _context(self, tenant: str, session_id: str, bounds: ChainBounds, now_ms: int) -> History:
        """What a turn in the session continues, without the items that were taken out of the conversation."""
        head = self._head(tenant, self._session(tenant, session_id), now_ms)
        removed = self._removed_items.get((tenant, session_id), ())
        return conversations.read_context(removed, bounds, lambda wide: _history(head, wide))

    def _head_id(self, tenant: str, session_id: str, now_ms: int) -> str | None:
        head = self._head(tenant, self._session(tenant, session_id), now_ms)
        return head.record.id if head else None

    def _stored(self, tenant: str, response_id: str) -> Record | None:
        """A record that is stored, readable or not."""
        node = self._nodes.get((tenant, response_id))
        return node.record if node else None

    def _append_hidden(self, tenant: str, session_id: str, write: Write, now_ms: int) -> None:
        """A node behind the session's head that is deleted from the start, and the session's new head."""
        state = self._session(tenant, session_id)
        self._insert(tenant, write, now_ms, [state.head_id]).deleted = True
        self._move_head(tenant, session_id, state, write.record.id, now_ms)

    def _parent(self, tenant: str, record: Record, now_ms: int, head_ids: Collection[str | None]) -> _Node | None:
        if record.parent_id is None:
            return None
        node = self._nodes.get((tenant, record.parent_id))
        may_be_deleted = record.parent_id in head_ids
        if node is None or node.is_expired(now_ms) or (node.deleted and not may_be_deleted):
            raise ResponseNotFound.of(record.parent_id)
        return node

    def _move_head(self, tenant: str, session_id: str, state: SessionState, head_id: str | None, now_ms: int) -> None:
        self._sessions[tenant, session_id] = replace(state, head_id=head_id)
        if head_id is not None:
            self._heads[tenant, head_id] += 1
        if state.head_id is None:
            return
        former = (tenant, state.head_id)
        self._heads[former] -= 1
        if not self._heads[former]:
            del self._heads[former]
        if former in self._nodes:
            self._reclaim(self._nodes[former], now_ms)

    def _reclaim(self, node: _Node | None, now_ms: int) -> None:
        """Lets go of the node and its subtree if nothing in it is kept; then the same for its parent."""
        while node is not None:
            if any(self._is_kept(each, now_ms) for each in node.subtree()):
                return
            for each in node.subtree():
                del self._nodes[each.key]
                self._catalogue.drop(each.key)
            if node.parent is not None:
                del node.parent.children[node.key]
            node = node.parent

    def _drop_leaf(self, node: _Node) -> None:
        del self._nodes[node.key]
        self._catalogue.drop(node.key)
        if node.parent is not None:
            del node.parent.children[node.key]

    def _is_kept(self, node: _Node, now_ms: int) -> bool:
        return not node.is_expired(now_ms) and (not node.deleted or self._heads[node.key] > 0)


def _chain(node: _Node, bounds: ChainBounds) -> list[Record]:
    """The node's record and those above it, root first."""
    bounds.require_depth(node.record.depth + 1)
    chain = []
    step: _Node | None = node
    while step is not None:
        chain.append(step.record)
        step = step.parent
    chain.reverse()
    return chain


def _history(node: _Node | None, bounds: ChainBounds) -> History:
    if node is None:
        return History()
    bounds = replace(bounds, response_id=node.record.id)
    chain = _chain(node, bounds)
    items = join_arrays(part for each in chain for part in (each.input_items, each.output_items))
    bounds.require_bytes(len(items))
    return History(items=items, depth=len(chain), head_id=node.record.id)
