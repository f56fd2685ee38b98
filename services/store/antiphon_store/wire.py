"""Messages to values and back: the one place that knows both, for the server and the client.

`to_*` makes a message, `from_*` a value. proto3 has no absence for most fields: "" and 0 stand for it and become None
or the default here. A field that is missing, or has a value that its enum lacks, is an InvalidRequest with its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    Fence,
    History,
    ItemPage,
    Lease,
    LogEnd,
    Order,
    Precondition,
    Record,
    Session,
    Stamp,
    Status,
    TurnCommit,
    TurnRequest,
    TurnStart,
)
from antiphon_protos.antiphon.store import v1

_Value = TypeVar("_Value")

_STATUS_TO_WIRE = {status: v1.ResponseStatus[status.name] for status in Status}
_STATUS_FROM_WIRE = {wire: status for status, wire in _STATUS_TO_WIRE.items()}
_ORDER_TO_WIRE = {Order.ASCENDING: v1.Order.ASCENDING, Order.DESCENDING: v1.Order.DESCENDING}
_ORDER_FROM_WIRE = {v1.Order.UNSPECIFIED: Order.DESCENDING} | {wire: order for order, wire in _ORDER_TO_WIRE.items()}


def given(value: _Value | None, field: str) -> _Value:
    """A message that has to be there."""
    if value is None:
        raise InvalidRequest(f"'{field}' is missing.", field=field)
    return value


# ---- Records ----


def to_record(record: Record) -> v1.Record:
    return v1.Record(
        id=record.id,
        parent_id=record.parent_id or "",
        session_id=record.session_id or "",
        status=_STATUS_TO_WIRE[record.status],
        body=record.body,
        input_items=record.input_items,
        output_items=record.output_items,
        version=record.version,
        depth=record.depth,
        created_at_ms=record.created_at_ms,
        updated_at_ms=record.updated_at_ms,
        expires_at_ms=record.expires_at_ms or 0,
    )


def from_record(message: v1.Record) -> Record:
    return Record(
        id=message.id,
        status=from_status(message.status, "record.status"),
        body=message.body,
        input_items=message.input_items,
        output_items=message.output_items,
        parent_id=message.parent_id or None,
        session_id=message.session_id or None,
        version=message.version,
        depth=message.depth,
        created_at_ms=message.created_at_ms,
        updated_at_ms=message.updated_at_ms,
        expires_at_ms=message.expires_at_ms or None,
    )


def to_stamp(stamp: Stamp) -> v1.Stamp:
    return v1.Stamp(
        version=stamp.version,
        depth=stamp.depth,
        created_at_ms=stamp.created_at_ms,
        updated_at_ms=stamp.updated_at_ms,
        expires_at_ms=stamp.expires_at_ms or 0,
    )


def from_stamp(message: v1.Stamp) -> Stamp:
    return Stamp(
        version=message.version,
        depth=message.depth,
        created_at_ms=message.created_at_ms,
        updated_at_ms=message.updated_at_ms,
        expires_at_ms=message.expires_at_ms or None,
    )


def to_precondition(condition: Precondition) -> v1.Precondition | None:
    if condition == NO_PRECONDITION:
        return None
    return v1.Precondition(
        version=condition.version,
        statuses=[_STATUS_TO_WIRE[status] for status in sorted(condition.statuses)],
        unless_statuses=[_STATUS_TO_WIRE[status] for status in sorted(condition.unless_statuses)],
        fence=to_fence(condition.fence),
    )


def from_precondition(message: v1.Precondition | None) -> Precondition:
    if message is None:
        return NO_PRECONDITION
    return Precondition(
        version=message.version,
        statuses=_from_statuses(message.statuses, "precondition.statuses"),
        unless_statuses=_from_statuses(message.unless_statuses, "precondition.unless_statuses"),
        fence=from_fence(message.fence) if message.fence is not None else None,
    )


def from_status(message: v1.ResponseStatus, field: str) -> Status:
    status = _STATUS_FROM_WIRE.get(message)
    if status is None:
        problem = "is missing" if not message else f"has the unknown value {int(message)}"
        raise InvalidRequest(f"'{field}' {problem}.", field=field)
    return status


def to_order(order: Order) -> v1.Order:
    return _ORDER_TO_WIRE[order]


def from_order(message: v1.Order) -> Order:
    order = _ORDER_FROM_WIRE.get(message)
    if order is None:
        raise InvalidRequest(f"'order' has the unknown value {int(message)}.", field="order")
    return order


def to_item_page(page: ItemPage) -> v1.ListItemsResponse:
    return v1.ListItemsResponse(
        items=page.items, first_id=page.first_id or "", last_id=page.last_id or "", has_more=page.has_more
    )


def from_item_page(message: v1.ListItemsResponse) -> ItemPage:
    return ItemPage(
        items=message.items,
        first_id=message.first_id or None,
        last_id=message.last_id or None,
        has_more=message.has_more,
    )


# ---- Sessions ----


def to_fence(fence: Fence | None) -> v1.Fence | None:
    return v1.Fence(session_id=fence.session_id, token=fence.token) if fence is not None else None


def from_fence(message: v1.Fence) -> Fence:
    return Fence(session_id=message.session_id, token=message.token)


def to_lease(lease: Lease | None) -> v1.Lease | None:
    if lease is None:
        return None
    return v1.Lease(fence=to_fence(lease.fence), holder=lease.holder, expires_at_ms=lease.expires_at_ms)


def from_lease(message: v1.Lease) -> Lease:
    return Lease(from_fence(given(message.fence, "lease.fence")), message.holder, message.expires_at_ms)


def to_session(session: Session) -> v1.DescribeSessionResponse:
    return v1.DescribeSessionResponse(
        session_id=session.id,
        head_response_id=session.head_id or "",
        last_fence=session.last_fence,
        lease=to_lease(session.lease),
    )


def from_session(message: v1.DescribeSessionResponse) -> Session:
    return Session(
        id=message.session_id,
        head_id=message.head_response_id or None,
        last_fence=message.last_fence,
        lease=from_lease(message.lease) if message.lease is not None else None,
    )


# ---- Turns ----


def to_turn_request(request: TurnRequest) -> v1.BeginTurnRequest:
    return v1.BeginTurnRequest(
        previous_response_id=request.previous_response_id or "",
        session_id=request.session_id or "",
        holder=request.holder,
        lease_ttl_ms=request.lease_ttl_ms,
        wait_ms=request.wait_ms,
        max_depth=request.max_depth,
        max_bytes=request.max_bytes,
        idempotency_key=request.idempotency_key or "",
        fingerprint=request.fingerprint,
        response_id=request.response_id or "",
    )


def from_turn_request(message: v1.BeginTurnRequest) -> TurnRequest:
    return TurnRequest(
        previous_response_id=message.previous_response_id or None,
        session_id=message.session_id or None,
        holder=message.holder,
        lease_ttl_ms=message.lease_ttl_ms or limits.LEASE_TTL_MS_DEFAULT,
        wait_ms=message.wait_ms,
        max_depth=message.max_depth or limits.CHAIN_DEPTH_MAX,
        max_bytes=message.max_bytes or limits.CHAIN_BYTES_MAX,
        idempotency_key=message.idempotency_key or None,
        fingerprint=message.fingerprint,
        response_id=message.response_id or None,
    )


def to_turn_start(start: TurnStart) -> v1.BeginTurnResponse:
    history = start.history
    return v1.BeginTurnResponse(
        history=v1.History(items=history.items, depth=history.depth, head_response_id=history.head_id or ""),
        lease=to_lease(start.lease),
        replay=to_record(start.replay) if start.replay is not None else None,
        running_response_id=start.running_response_id or "",
    )


def from_turn_start(message: v1.BeginTurnResponse) -> TurnStart:
    history = given(message.history, "history")
    return TurnStart(
        History(items=history.items, depth=history.depth, head_id=history.head_response_id or None),
        from_lease(message.lease) if message.lease is not None else None,
        from_record(message.replay) if message.replay is not None else None,
        message.running_response_id or None,
    )


def to_turn_commit(commit: TurnCommit) -> v1.CommitTurnRequest:
    return v1.CommitTurnRequest(
        record=to_record(commit.record),
        fence=to_fence(commit.fence),
        ttl_ms=commit.ttl_ms or 0,
        idempotency_key=commit.idempotency_key or "",
        precondition=to_precondition(commit.precondition),
        log_end=v1.LogEnd(commit.log_end.expected_position, commit.log_end.frames) if commit.log_end else None,
    )


def from_turn_commit(message: v1.CommitTurnRequest) -> TurnCommit:
    end = message.log_end
    return TurnCommit(
        record=from_record(given(message.record, "record")),
        fence=from_fence(message.fence) if message.fence is not None else None,
        ttl_ms=message.ttl_ms or None,
        idempotency_key=message.idempotency_key or None,
        precondition=from_precondition(message.precondition),
        log_end=LogEnd(end.expected_position, end.frames) if end is not None else None,
    )


def _from_statuses(messages: Iterable[v1.ResponseStatus], field: str) -> frozenset[Status]:
    return frozenset(from_status(message, field) for message in messages)
