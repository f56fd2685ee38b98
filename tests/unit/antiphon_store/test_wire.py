from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.store import (
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
from antiphon_store import wire
from tests.support.sent import sent

names = st.text("abc_-0", min_size=1, max_size=8)
numbers = st.integers(1, 2**31)
statuses = st.sampled_from(Status)
fences = st.builds(Fence, names, numbers)
leases = st.builds(Lease, fences, names, numbers)
stamps = st.builds(Stamp, numbers, numbers, numbers, numbers, st.none() | numbers)
records = st.builds(
    Record,
    id=names,
    status=statuses,
    body=st.binary(max_size=9),
    input_items=st.binary(max_size=9),
    output_items=st.binary(max_size=9),
    parent_id=st.none() | names,
    session_id=st.none() | names,
    version=numbers,
    depth=numbers,
    created_at_ms=numbers,
    updated_at_ms=numbers,
    expires_at_ms=st.none() | numbers,
)
preconditions = st.builds(
    Precondition,
    version=st.none() | st.integers(0, 9),
    statuses=st.frozensets(statuses),
    unless_statuses=st.frozensets(statuses),
    fence=st.none() | fences,
)
pages = st.builds(ItemPage, st.binary(), st.none() | names, st.none() | names, st.booleans())
sessions = st.builds(Session, names, st.none() | names, numbers, st.none() | leases)
requests = st.builds(
    TurnRequest,
    previous_response_id=st.none() | names,
    session_id=st.none() | names,
    holder=names,
    lease_ttl_ms=numbers,
    wait_ms=st.integers(0, 9),
    max_depth=numbers,
    max_bytes=numbers,
    idempotency_key=st.none() | names,
    fingerprint=st.binary(max_size=32),
    response_id=st.none() | names,
)
histories = st.builds(History, st.binary(min_size=2), numbers, st.none() | names)
starts = st.builds(TurnStart, histories, st.none() | leases, st.none() | records, st.none() | names)
ends = st.builds(LogEnd, numbers, st.binary(max_size=9))
commits = st.builds(
    TurnCommit, records, st.none() | fences, st.none() | numbers, st.none() | names, preconditions, st.none() | ends
)

ROUND_TRIPS = {
    "record": (records, wire.to_record, wire.from_record),
    "stamp": (stamps, wire.to_stamp, wire.from_stamp),
    "precondition": (preconditions, wire.to_precondition, wire.from_precondition),
    "order": (st.sampled_from(Order), wire.to_order, wire.from_order),
    "page": (pages, wire.to_item_page, wire.from_item_page),
    "fence": (fences, wire.to_fence, wire.from_fence),
    "lease": (leases, wire.to_lease, wire.from_lease),
    "session": (sessions, wire.to_session, wire.from_session),
    "turn request": (requests, wire.to_turn_request, wire.from_turn_request),
    "turn start": (starts, wire.to_turn_start, wire.from_turn_start),
    "turn commit": (commits, wire.to_turn_commit, wire.from_turn_commit),
}


@pytest.mark.parametrize("kind", ROUND_TRIPS)
@given(data=st.data())
def test_values_survive_the_wire(kind: str, data: st.DataObject) -> None:
    values, to_wire, from_wire = ROUND_TRIPS[kind]
    value: object = data.draw(values)
    message = to_wire(value)  # type: ignore[operator]
    if message is not None and not isinstance(message, v1.Order):
        message = sent(message)
    assert from_wire(message) == value  # type: ignore[operator]


def test_the_unwritten_version_differs_from_none() -> None:
    message = wire.to_precondition(Precondition(version=0))
    assert message is not None
    assert wire.from_precondition(sent(message)).version == 0


def test_absence_becomes_the_documented_default() -> None:
    assert wire.from_turn_request(v1.BeginTurnRequest()) == TurnRequest()
    assert wire.from_order(v1.Order.UNSPECIFIED) is Order.DESCENDING
    assert wire.from_precondition(None) == Precondition()


@pytest.mark.parametrize(
    ("number", "words"), [(0, "'record.status' is missing"), (99, "'record.status' has the unknown value 99")]
)
def test_a_status_that_is_none_is_refused(number: int, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        wire.from_record(v1.Record(status=v1.ResponseStatus(number)))
    assert caught.value.field == "record.status"


def test_unknown_values_in_a_precondition_are_refused() -> None:
    for field in ("statuses", "unless_statuses"):
        with pytest.raises(InvalidRequest) as caught:
            wire.from_precondition(v1.Precondition(**{field: [v1.ResponseStatus(42)]}))  # type: ignore[arg-type]
        assert caught.value.field == f"precondition.{field}"
    with pytest.raises(InvalidRequest):
        wire.from_order(v1.Order(7))


def test_a_missing_message_is_named() -> None:
    with pytest.raises(InvalidRequest) as caught:
        wire.given(None, "record")
    assert caught.value.field == "record"
