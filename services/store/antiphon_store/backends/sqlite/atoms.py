"""The atoms of `base.Backend` as functions of a connection and the time.

Those that write run inside a transaction of the writer, so what they read still holds when they write; each that only
reads is one statement, and sees one moment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import replace

from antiphon_core.errors import AlreadyExists, PreviousResponseNotFound, ResponseNotFound
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
from antiphon_store.backends import admission, conversations, leases
from antiphon_store.backends.base import Write
from antiphon_store.backends.bounds import ChainBounds, require_room
from antiphon_store.backends.leases import SessionState
from antiphon_store.backends.places import depth_of
from antiphon_store.backends.sqlite import (
    conversation_rows,
    event_log_atoms,
    fences,
    item_index,
    lineage,
    nodes,
    sessions,
)

_Connection = sqlite3.Connection

# ---- Records ----


def put(connection: _Connection, tenant: str, write: Write, now_ms: int, *, fence: Fence | None = None) -> Stamp:
    """`fence` must also be live, in addition to the precondition's."""
    former = nodes.find(connection, tenant, write.record.id)
    existing = nodes.read(connection, tenant, write.record.id, now_ms) if former is not None else None
    if existing is not None and admission.is_replay(existing, write):
        return admission.stamp_of(existing)
    held = [each for each in (fence, write.precondition.fence) if each is not None]
    for each in held:
        fences.require(connection, tenant, each, now_ms)
    admission.require_admission(existing, write)
    if write.log_end is not None:
        event_log_atoms.extend(connection, tenant, write.log_end.append, ttl_ms=write.log_end.ttl_ms, now_ms=now_ms)
    if existing is not None:
        return _replace(connection, tenant, existing, write, now_ms)
    _require_room(connection, tenant, write, now_ms)
    head_ids = [sessions.read(connection, tenant, each.session_id).head_id for each in held]
    return _insert(connection, tenant, write, now_ms, head_ids, former)


def fetch(connection: _Connection, tenant: str, response_id: str, now_ms: int) -> Record:
    record = nodes.read(connection, tenant, response_id, now_ms)
    if record is None:
        raise ResponseNotFound.of(response_id)
    return record


def remove(connection: _Connection, tenant: str, response_id: str, condition: Precondition, now_ms: int) -> None:
    record = fetch(connection, tenant, response_id, now_ms)
    fences.require(connection, tenant, condition.fence, now_ms)
    admission.require_precondition(record, condition)
    node = nodes.find(connection, tenant, response_id)
    if node is not None:
        nodes.mark_deleted(connection, node.place)
        item_index.drop(connection, node.place)
        lineage.reclaim(connection, node.place, now_ms)


def ancestry(connection: _Connection, tenant: str, bounds: ChainBounds, now_ms: int) -> list[Record]:
    records = lineage.read_chain(connection, tenant, bounds, now_ms)
    if not records:
        raise ResponseNotFound.of(bounds.response_id)
    return records


# ---- Sessions ----


def acquire_lease(
    connection: _Connection, tenant: str, session_id: str, *, holder: str, ttl_ms: int, now_ms: int
) -> Lease:
    state = sessions.read(connection, tenant, session_id)
    state = leases.acquire(state, session_id, holder=holder, ttl_ms=ttl_ms, now_ms=now_ms)
    sessions.write(connection, tenant, session_id, state)
    return leases.granted(state, session_id)


def renew_lease(connection: _Connection, tenant: str, fence: Fence, *, ttl_ms: int, now_ms: int) -> Lease:
    state = sessions.read(connection, tenant, fence.session_id)
    state = leases.renew(state, fence, ttl_ms=ttl_ms, now_ms=now_ms)
    sessions.write(connection, tenant, fence.session_id, state)
    return leases.granted(state, fence.session_id)


def release_lease(connection: _Connection, tenant: str, fence: Fence, now_ms: int) -> bool:
    state = sessions.read(connection, tenant, fence.session_id)
    if not leases.holds(state, fence, now_ms):
        return False
    sessions.write(connection, tenant, fence.session_id, leases.released(state))
    return True


def describe_session(connection: _Connection, tenant: str, session_id: str, now_ms: int) -> Session:
    state = sessions.read_current(connection, tenant, session_id, now_ms)
    return Session(
        id=session_id,
        head_id=state.head_id,
        last_fence=state.last_fence,
        lease=leases.lease_of(state, session_id, now_ms),
    )


# ---- Turns ----


def begin_after(connection: _Connection, tenant: str, request: TurnRequest, now_ms: int) -> TurnStart:
    """A turn that continues a response that has ended, or nothing. Reads only."""
    if request.previous_response_id is None:
        return TurnStart(History())
    bounds = ChainBounds(request.previous_response_id, request.max_depth, request.max_bytes)
    history = lineage.read_history(connection, tenant, bounds, now_ms)
    if history is None:
        raise PreviousResponseNotFound.of(request.previous_response_id)
    return TurnStart(history)


def begin_in_session(
    connection: _Connection, tenant: str, session_id: str, request: TurnRequest, now_ms: int
) -> TurnStart:
    """A turn under the lease of its session, which continues the head, deleted or not, until its time is over."""
    lease = acquire_lease(
        connection, tenant, session_id, holder=request.holder, ttl_ms=request.lease_ttl_ms, now_ms=now_ms
    )
    bounds = ChainBounds(session_id, request.max_depth, request.max_bytes)
    return TurnStart(context(connection, tenant, session_id, bounds, now_ms), lease)


def context(connection: _Connection, tenant: str, session_id: str, bounds: ChainBounds, now_ms: int) -> History:
    """What a turn in the session continues, without the items that were taken out of the conversation."""
    head_id = sessions.read(connection, tenant, session_id).head_id
    if head_id is None:
        return History()

    def read(wide: ChainBounds) -> History:
        of_head = replace(wide, response_id=head_id)
        return lineage.read_history(connection, tenant, of_head, now_ms, of_head=True) or History()

    removed = conversation_rows.removed_items(connection, tenant, session_id)
    return conversations.read_context(removed, bounds, read)


def commit_turn(connection: _Connection, tenant: str, write: Write, fence: Fence | None, now_ms: int) -> Stamp:
    if fence is None:
        return put(connection, tenant, write, now_ms)
    state = sessions.read(connection, tenant, fence.session_id)
    stamp = put(connection, tenant, write, now_ms, fence=fence)
    if leases.holds(state, fence, now_ms):  # not so when this is a replay
        move_head(connection, tenant, fence.session_id, leases.released(state), write.record.id, now_ms)
    return stamp


def append_hidden(connection: _Connection, tenant: str, session_id: str, write: Write, now_ms: int) -> None:
    """A node behind the session's head that is deleted from the start, and the session's new head."""
    state = sessions.read(connection, tenant, session_id)
    _insert(connection, tenant, write, now_ms, [state.head_id], nodes.find(connection, tenant, write.record.id))
    node = nodes.find(connection, tenant, write.record.id)
    if node is not None:
        nodes.mark_deleted(connection, node.place)
    move_head(connection, tenant, session_id, state, write.record.id, now_ms)


def move_head(
    connection: _Connection, tenant: str, session_id: str, state: SessionState, head_id: str | None, now_ms: int
) -> None:
    """Writes the session with another head, or none, and lets go of the former one."""
    sessions.write(connection, tenant, session_id, replace(state, head_id=head_id))
    _let_go_of_head(connection, tenant, state.head_id, now_ms)


# ---- Parts ----


def _replace(connection: _Connection, tenant: str, existing: Record, write: Write, now_ms: int) -> Stamp:
    record = admission.stamped(existing, write, depth=existing.depth, now_ms=now_ms)
    nodes.overwrite(connection, tenant, record)
    node = nodes.find(connection, tenant, record.id)
    if node is not None:
        item_index.rewrite(connection, tenant, node.place, write.item_ids)
    return admission.stamp_of(record)


def _require_room(connection: _Connection, tenant: str, write: Write, now_ms: int) -> None:
    session_id, most = write.record.session_id, write.session_responses_max
    if session_id is not None and most is not None:
        made = nodes.count_in_session(connection, tenant, session_id, now_ms, most=most)
        require_room(session_id, made, most)


def _insert(
    connection: _Connection,
    tenant: str,
    write: Write,
    now_ms: int,
    head_ids: Collection[str | None],
    former: nodes.Node | None,
) -> Stamp:
    """`head_ids` may be continued although they were deleted: the heads of sessions that the writer holds. `former` is
    the node that the record's id has already, which must be deleted or expired."""
    parent = _parent_place(connection, tenant, write.record.parent_id, now_ms, head_ids)
    if former is not None:
        lineage.reclaim(connection, former.place, now_ms)
        if nodes.find(connection, tenant, write.record.id) is not None:
            raise AlreadyExists.of(write.record.id)
    place = lineage.new_place(connection, parent)
    record = admission.stamped(None, write, depth=depth_of(place), now_ms=now_ms)
    nodes.insert(connection, tenant, place, record)
    item_index.write(connection, tenant, place, write.item_ids)
    return admission.stamp_of(record)


def _parent_place(
    connection: _Connection, tenant: str, parent_id: str | None, now_ms: int, head_ids: Collection[str | None]
) -> int | None:
    if parent_id is None:
        return None
    parent = nodes.find(connection, tenant, parent_id)
    may_be_deleted = parent_id in head_ids
    if parent is None or parent.is_expired(now_ms) or (parent.deleted and not may_be_deleted):
        raise ResponseNotFound.of(parent_id)
    return parent.place


def _let_go_of_head(connection: _Connection, tenant: str, head_id: str | None, now_ms: int) -> None:
    """The former head of a session: nothing keeps it any more if it was deleted."""
    head = nodes.find(connection, tenant, head_id) if head_id else None
    if head is not None and not head.is_readable(now_ms):
        lineage.reclaim(connection, head.place, now_ms)
