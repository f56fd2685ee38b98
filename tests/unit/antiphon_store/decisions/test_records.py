"""The rules of writing records, case by case. `antiphon_store.testing.replacement` tests them through a store."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    InvalidRequest,
    ResponseNotFound,
    StaleFence,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.ports.store import Fence, LogEnd, Precondition, Record, Stamp, Status
from antiphon_store.decisions import records
from antiphon_store.decisions.records import CrowdedSession, OccupiedId, Write
from antiphon_store.rows.model import Add, Condition, Fewer, File, Grow, Index, Kind, Now, Row, Set, Unfile, made_id
from antiphon_store.rows.view import UnknownRow, View
from antiphon_store.testing.conversations import array
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, answered, crowds, decided, fields_of, guards_on, node, pins, row, shown

PARENT = draft()
STORED = draft(PARENT, status=Status.IN_PROGRESS, session_id="s")
OTHER = replace(STORED, status=Status.COMPLETED)
NODE = (Kind.NODE, STORED.id)
ROW = node(STORED, version=3, depth=4)
RUNNING = frozenset({Status.IN_PROGRESS})
READABLE = [(Condition.IS, "deleted", 0), (Condition.AHEAD, "expires", None)]
FENCE = Fence("s", 7)
LEASED = row(head=PARENT.id, fence=7, lease_until=NOW_MS + 1)


def put(record: Record = STORED, condition: Precondition | None = None, **options: Any) -> Any:
    return partial(records.put, write=Write(record, condition or Precondition(), **options))


# ---- Inserting ----


def test_a_new_record_takes_one_program() -> None:
    program = decided(put(item_ids=("a", "b"), ttl_ms=5, session_responses_max=9))
    assert guards_on(program, Kind.NODE) == [(Condition.ABSENT, "", None), *READABLE]  # the record, its parent
    assert crowds(program) == [Fewer(Index.MADE, "s", 9)]
    assert shown(program) == [
        ("grow", STORED.id, PARENT.id),
        ("file", Index.FOREIGN, "a", STORED.id),
        ("file", Index.FOREIGN, "b", STORED.id),
        ("file", Index.ENDS, "", f"node/{STORED.id}"),
    ]
    (grow,) = [each for each in program.changes if isinstance(each, Grow)]
    assert (grow.fields["version"], grow.fields["expires"]) == (1, Now(5))


def test_a_root_without_options_has_one_guard() -> None:
    program = decided(put(PARENT))
    assert len(program.guards) == 1
    assert shown(program) == [("grow", PARENT.id, None)]


def test_a_record_and_the_end_of_its_log_are_written_in_one_program() -> None:
    end = LogEnd(4, b"data: 1\n\n")
    program = decided(put(log_end=end))
    assert guards_on(program, Kind.LOG) == [
        (Condition.IS, "next", 4),
        (Condition.IS, "closed", 0),
        (Condition.AHEAD, "until", None),
    ]
    assert shown(program)[:2] == [("put", Kind.BATCH, f"{STORED.id}/000000000004"), ("set", Kind.LOG, STORED.id)]


def test_fences_are_guards_of_the_same_program() -> None:
    program = decided(partial(put(condition=Precondition(fence=Fence("t", 2))), fence=FENCE))
    assert guards_on(program, Kind.SESSION) == [
        (Condition.IS, "fence", 7),
        (Condition.AHEAD, "lease_until", None),
        (Condition.IS, "fence", 2),
        (Condition.AHEAD, "lease_until", None),
        (Condition.IS, "head", PARENT.id),
    ]


@pytest.mark.parametrize("parent", [None, node(PARENT, deleted=1), node(PARENT, expires=NOW_MS)])
def test_a_parent_that_cannot_be_read_is_not_continued(parent: Row | None) -> None:
    with pytest.raises(ResponseNotFound):
        decided(put(), {NODE: None, (Kind.NODE, PARENT.id): parent})


HEADS = [
    (LEASED, True),
    (row(head="another", fence=7, lease_until=NOW_MS + 1), False),
]


@pytest.mark.parametrize(("session", "is_admitted"), HEADS)
def test_a_deleted_head_is_continued_by_the_holder_of_its_lease(session: Row, is_admitted: bool) -> None:
    rows = {NODE: None, (Kind.NODE, PARENT.id): node(PARENT, deleted=1), (Kind.SESSION, "s"): session}
    decision = partial(put(), fence=FENCE)
    if is_admitted:
        program = decided(decision, rows)
        assert ("grow", STORED.id, PARENT.id) in shown(program)
        assert (Kind.SESSION, "s") in pins(program)  # pins that the parent is still the head
        return
    with pytest.raises(ResponseNotFound):
        decided(decision, rows)


def test_an_expired_head_is_not_continued_even_with_its_lease() -> None:
    rows = {NODE: None, (Kind.NODE, PARENT.id): node(PARENT, expires=NOW_MS), (Kind.SESSION, "s"): LEASED}
    with pytest.raises(ResponseNotFound):
        decided(partial(put(), fence=FENCE), rows)


def test_a_session_at_its_limit_is_counted_exactly_before_a_write() -> None:
    rows = {NODE: None, (Kind.NODE, PARENT.id): node(PARENT)}
    with pytest.raises(CrowdedSession):
        decided(put(session_responses_max=9), rows, crowded=True)
    decided(put(PARENT, session_responses_max=9), {}, crowded=True)  # a record without a session


@pytest.mark.parametrize("dead", [node(STORED, deleted=1), node(STORED, expires=NOW_MS)])
def test_the_id_of_a_deleted_or_expired_node_must_be_freed_before_reuse(dead: Row) -> None:
    with pytest.raises(OccupiedId):
        decided(put(), {NODE: dead})


# ---- Repeated writes ----


@pytest.mark.parametrize(
    ("record", "version", "replay"),
    [
        (STORED, None, True),
        (STORED, 2, True),  # this write would have made version 3
        (STORED, 3, False),  # a new version with the same content
        (STORED, 1, False),
        (STORED, 0, False),
        (OTHER, None, False),
        (OTHER, 2, False),
    ],
)
def test_a_repeated_write_is_recognized_by_content_and_version(
    record: Record, version: int | None, replay: bool
) -> None:
    decision = put(record, Precondition(version=version))
    if replay:
        assert answered(decision, {NODE: ROW}) == Stamp(3, 4, 10, 20)
    elif version == 3:
        assert decided(decision, {NODE: ROW}).changes
    else:
        with pytest.raises((AlreadyExists, VersionMismatch)):
            decided(decision, {NODE: ROW})


def test_a_repeated_first_write_with_version_zero_is_answered() -> None:
    first = node(STORED, version=1)
    assert answered(put(condition=Precondition(version=0)), {NODE: first}).version == 1


def test_a_repeated_write_needs_no_lease() -> None:
    decision = partial(put(), fence=FENCE)
    assert answered(decision, {NODE: ROW, (Kind.SESSION, "s"): None}).version == 3


@pytest.mark.parametrize(
    "change", [{"body": b"{}"}, {"output_items": b"[]"}, {"status": Status.FAILED}, {"session_id": None}]
)
def test_a_second_write_with_other_content_is_rejected(change: Any) -> None:
    with pytest.raises(AlreadyExists):
        decided(put(replace(STORED, **change)), {NODE: ROW})


# ---- Replacing ----

ADMITTED = [
    (None, Precondition()),
    (None, Precondition(version=0)),
    (ROW, Precondition(version=3)),
    (ROW, Precondition(statuses=RUNNING)),
    (ROW, Precondition(unless_statuses=frozenset({Status.CANCELLED}))),
    (ROW, Precondition(version=3, statuses=RUNNING)),
]
REFUSED = [
    (None, Precondition(version=1), VersionMismatch),
    (None, Precondition(statuses=RUNNING), StatusMismatch),
    (None, Precondition(unless_statuses=RUNNING), StatusMismatch),
    (ROW, Precondition(), AlreadyExists),
    (ROW, Precondition(version=0), AlreadyExists),
    (ROW, Precondition(version=2), VersionMismatch),
    (ROW, Precondition(version=0, statuses=RUNNING), VersionMismatch),
    (ROW, Precondition(statuses=frozenset({Status.QUEUED})), StatusMismatch),
    (ROW, Precondition(version=3, unless_statuses=RUNNING), StatusMismatch),
    (node(STORED, version=3, deleted=1), Precondition(version=3), VersionMismatch),
    (node(STORED, version=3, expires=NOW_MS), Precondition(statuses=RUNNING), StatusMismatch),
]


@pytest.mark.parametrize(("existing", "condition"), ADMITTED)
def test_a_write_that_meets_its_precondition_is_made(existing: Row | None, condition: Precondition) -> None:
    program = decided(put(OTHER, condition), {NODE: existing, (Kind.NODE, PARENT.id): node(PARENT)})
    assert shown(program)[0][0] == ("grow" if existing is None else "set")
    assert NODE in pins(program)


@pytest.mark.parametrize(("existing", "condition", "error"), REFUSED)
def test_a_write_that_fails_its_precondition_is_rejected(
    existing: Row | None, condition: Precondition, error: type[Exception]
) -> None:
    with pytest.raises(error):
        decided(put(OTHER, condition), {NODE: existing, (Kind.NODE, PARENT.id): node(PARENT)})


def test_a_replacement_with_another_parent_is_rejected() -> None:
    with pytest.raises(InvalidRequest):
        decided(put(replace(OTHER, parent_id=draft().id), Precondition(version=3)), {NODE: ROW})


def test_a_replacement_counts_its_version_and_keeps_depth_and_creation_time() -> None:
    program = decided(put(OTHER, Precondition(version=3)), {NODE: ROW})
    (change,) = [each for each in program.changes if isinstance(each, Set)]
    assert change.fields["version"] == Add(1)
    assert change.fields["updated"] == Now()
    assert not {"depth", "created", "v"} & set(change.fields)  # these fields stay
    assert change.items is not None


def test_index_entries_of_replaced_items_have_the_creation_time_of_the_record() -> None:
    write = Write(replace(OTHER, input_items=array("kept", "new")), Precondition(version=3), item_ids=("kept", "new"))
    former = node(replace(STORED, input_items=array("kept", "gone"), output_items=b"[]"), version=3, created=7)
    program = decided(partial(records.put, write=write), {NODE: former})
    entries = [each for each in program.changes if isinstance(each, File | Unfile) and each.of is Index.FOREIGN]
    assert [each for each in entries if isinstance(each, Unfile)] == [Unfile(Index.FOREIGN, "gone", STORED.id)]
    assert {each.key: each.at for each in entries if isinstance(each, File)} == {"kept": 7, "new": 7}


@pytest.mark.parametrize("condition", [Precondition(version=3), Precondition(statuses=RUNNING)])
def test_a_replacement_first_reads_the_stored_record(condition: Precondition) -> None:
    with pytest.raises(UnknownRow):
        decided(put(OTHER, condition))


def test_a_replacement_that_moves_to_another_session_is_listed_there() -> None:
    program = decided(put(replace(OTHER, session_id="other"), Precondition(version=3)), {NODE: ROW})
    entry = made_id(4, STORED.id)
    assert shown(program)[1:3] == [("unfile", Index.MADE, "s", entry), ("file", Index.MADE, "other", entry)]


def test_a_replacement_with_a_stale_fence_is_rejected() -> None:
    for session in (None, row(fence=8, lease_until=NOW_MS + 1)):
        with pytest.raises(StaleFence):
            decided(
                partial(put(OTHER, Precondition(version=3)), fence=FENCE), {NODE: ROW, (Kind.SESSION, "s"): session}
            )


# ---- Reading, changing, removing ----


def test_a_fetch_is_one_program_with_the_record_as_its_answer() -> None:
    view = View({})
    finish = records.get(view, STORED.id)
    assert guards_on(view.program(), Kind.NODE) == READABLE
    assert finish([ROW]).version == 3


UNREADABLE = [None, node(STORED, deleted=1), node(STORED, expires=NOW_MS)]


@pytest.mark.parametrize("existing", UNREADABLE)
def test_an_unreadable_response_is_not_found(existing: Row | None) -> None:
    for decision in (
        partial(records.get, response_id=STORED.id),
        partial(records.delete, response_id=STORED.id, precondition=Precondition()),
        partial(records.update_status, response_id=STORED.id, status=Status.FAILED, precondition=Precondition()),
    ):
        with pytest.raises(ResponseNotFound):
            decided(decision, {NODE: existing})


def test_a_deleted_response_stays_as_a_candidate_for_sweeping() -> None:
    program = decided(partial(records.delete, response_id=STORED.id, precondition=Precondition()), {NODE: ROW})
    assert fields_of(program, Kind.NODE) == {"deleted": 1}
    assert shown(program)[1:] == [
        ("file", Index.ENDS, "", f"node/{STORED.id}"),
        ("unfile", Index.MADE, "s", made_id(4, STORED.id)),
    ]


CHANGES = [(None, True), (2, True), (3, False), (0, False)]


@pytest.mark.parametrize(("version", "is_replay"), CHANGES)
def test_a_repeated_status_change_is_recognized_by_status_and_version(version: int | None, is_replay: bool) -> None:
    change = partial(
        records.update_status,
        response_id=STORED.id,
        status=Status.IN_PROGRESS,
        precondition=Precondition(version=version),
    )
    if is_replay:
        assert answered(change, {NODE: ROW}).version == 3
    elif version == 3:
        assert fields_of(decided(change, {NODE: ROW}), Kind.NODE)["version"] == Add(1)
    else:
        with pytest.raises(VersionMismatch):
            decided(change, {NODE: ROW})


def test_a_status_change_leaves_other_fields_unchanged() -> None:
    change = partial(records.update_status, response_id=STORED.id, status=Status.CANCELLED, precondition=Precondition())
    fields = fields_of(decided(change, {NODE: ROW}), Kind.NODE)
    assert fields == {"status": "cancelled", "version": Add(1), "updated": Now()}


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        (Precondition(version=2), VersionMismatch),
        (Precondition(statuses=frozenset({Status.QUEUED})), StatusMismatch),
        (Precondition(unless_statuses=RUNNING), StatusMismatch),
        (Precondition(fence=FENCE), StaleFence),
    ],
)
def test_changes_and_removals_respect_their_precondition(condition: Precondition, error: type[Exception]) -> None:
    rows = {NODE: ROW, (Kind.SESSION, "s"): None}
    for decision in (
        partial(records.delete, response_id=STORED.id, precondition=condition),
        partial(records.update_status, response_id=STORED.id, status=Status.FAILED, precondition=condition),
    ):
        with pytest.raises(error):
            decided(decision, rows)
