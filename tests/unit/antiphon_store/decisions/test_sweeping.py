"""Sweeping, case by case. `antiphon_store.testing.sweeping` tests sweeps through a store."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from antiphon_core.ports.jobs import JobState
from antiphon_store.decisions import sweeping
from antiphon_store.decisions.sweeping import Family
from antiphon_store.rows.model import Condition, Entry, File, Index, Kind, Program, Row, Set, made_id
from antiphon_store.rows.view import UnknownRow
from antiphon_store.testing.conversations import array
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, decided, guards_on, node, pins, row, shown, view_of

PARENT = draft()
RECORD = draft(PARENT, session_id="s", input_items=array("a"), output_items=array("b"))
REF, SESSION = (Kind.NODE, RECORD.id), (Kind.SESSION, "s")
LINEAGE = (Kind.LINEAGE, RECORD.id)
DEAD = node(RECORD, deleted=1, depth=1)
V = DEAD.fields["v"]
ALONE = Family(V, ["a", "b"], [], [])
HEADED = Family(V, [], [], [("s", row(head=RECORD.id)), ("t", row(head="another"))])
WITH_CHILD = Family(V, [], [Entry("child", 0)], [])
NAMED = (Index.ENDS, "", f"node/{RECORD.id}")
reclaim_node = partial(sweeping.reclaim_node, response_id=RECORD.id)


def reclaimed(decision: Any, rows: Any) -> tuple[int | None, Program]:
    view = view_of({LINEAGE: None, **rows})
    return decision(view)(()), view.program()


def again_at(program: Program) -> int | None:
    """The time of the next look at the candidate; None if the candidate was dropped."""
    (change,) = program.changes
    if isinstance(change, File):
        assert change.of is Index.ENDS
        assert isinstance(change.at, int)
        return change.at
    return None


# ---- Nodes ----


@pytest.mark.parametrize("there", [DEAD, node(RECORD, expires=NOW_MS, depth=1)])
def test_reclaiming_a_node_removes_its_entries_and_makes_its_parent_a_candidate(there: Row) -> None:
    taken, program = reclaimed(partial(reclaim_node, family=ALONE), {REF: there, LINEAGE: row(key="ab")})
    assert taken == there.fields["size"]
    assert shown(program) == [
        ("delete", *REF),
        ("delete", *LINEAGE),
        ("unfile", Index.RESENT, "ab", RECORD.id),
        ("unfile", *NAMED),
        ("unfile", Index.MADE, "s", made_id(1, RECORD.id)),
        ("unfile", Index.CHILDREN, PARENT.id, RECORD.id),
        ("file", Index.ENDS, "", f"node/{PARENT.id}"),
        ("unfile", Index.FOREIGN, "a", RECORD.id),
        ("unfile", Index.FOREIGN, "b", RECORD.id),
    ]
    assert REF in pins(program)


def test_an_expired_session_head_is_reclaimed() -> None:
    taken, _ = reclaimed(partial(reclaim_node, family=HEADED), {REF: node(RECORD, deleted=1, expires=NOW_MS)})
    assert taken is not None


KEPT = [
    (None, ALONE, None),
    (node(RECORD), ALONE, None),
    (node(RECORD, expires=NOW_MS + 5), ALONE, NOW_MS + 5),  # its expiry was extended
    (DEAD, WITH_CHILD, None),
]


@pytest.mark.parametrize(("there", "family", "at"), KEPT)
def test_a_candidate_in_use_is_dropped_or_postponed_to_its_expiry(
    there: Row | None, family: Family, at: int | None
) -> None:
    taken, program = reclaimed(partial(reclaim_node, family=family), {REF: there})
    assert taken is None
    assert again_at(program) == at


def test_a_session_head_is_dropped_as_a_candidate() -> None:
    with pytest.raises(UnknownRow) as caught:
        decided(partial(reclaim_node, family=HEADED), {REF: DEAD, LINEAGE: None})
    assert caught.value.refs == (SESSION,)  # only the session with the node as its head
    taken, program = reclaimed(partial(reclaim_node, family=HEADED), {REF: DEAD, SESSION: row(head=RECORD.id)})
    assert taken is None
    assert again_at(program) is None
    assert SESSION in pins(program)


@pytest.mark.parametrize("session", [None, row(head="moved on")])
def test_a_node_that_stopped_being_the_head_is_looked_at_again(session: Row | None) -> None:
    """The node may have a child by now, so the earlier read does not allow to reclaim the node."""
    taken, program = reclaimed(partial(reclaim_node, family=HEADED), {REF: DEAD, SESSION: session})
    assert taken is None
    assert again_at(program) == NOW_MS


@pytest.mark.parametrize(("deleted", "limited"), [(0, [Kind.NODE, Kind.APPROVAL]), (1, [Kind.NODE])])
def test_the_expiry_of_a_response_is_that_of_its_approvals_unless_it_was_deleted(
    deleted: int, limited: list[Kind]
) -> None:
    limit = partial(sweeping.limit_response, response_id=RECORD.id, expires_ms=NOW_MS)
    program = decided(limit, {REF: node(RECORD, deleted=deleted, approvals=["mcpr_1"])})
    assert [each.ref.kind for each in program.changes if isinstance(each, Set)] == limited


def test_dropping_a_parent_as_candidate_guards_that_its_child_exists() -> None:
    """A reclaimed child makes its parent a candidate again. Without the guard, that candidate could be dropped here."""
    program = decided(partial(reclaim_node, family=WITH_CHILD), {REF: DEAD, LINEAGE: None})
    assert (Condition.PRESENT, "", None) in guards_on(program, Kind.NODE)
    _, program = reclaimed(partial(reclaim_node, family=WITH_CHILD), {REF: DEAD, (Kind.NODE, "child"): None})
    assert again_at(program) == NOW_MS


@pytest.mark.parametrize("dead_version", [None, V + 1])
def test_a_node_that_changed_since_its_family_was_read_is_left_alone(dead_version: int | None) -> None:
    """The node was readable then, so a session may have made the node its head since."""
    taken, program = reclaimed(partial(reclaim_node, family=Family(dead_version, [], [], [])), {REF: DEAD})
    assert taken is None
    assert not program.changes


# ---- Other rows ----

JOB = row(queue="q", retention=1000, holder="", lease_until=0, cancel=0, attempts=1, max_attempts=1, ended=None)


def job(**fields: Any) -> Row:
    return Row({**JOB.fields, **fields}, b"", b"payload")


def ended(at: int) -> Row:
    return job(ended=[JobState.SUCCEEDED.value, "", at])


TALK = row(metadata="{}", expires=NOW_MS)
OTHERS = [
    # kind, row to reclaim, its bytes, [(row that stays, time of the next look at the row)]
    (
        Kind.LOG,
        row(until=NOW_MS, size=7),
        7,
        [(row(until=NOW_MS + 1, size=7), NOW_MS + 1)],
    ),
    (
        Kind.JOB,
        ended(NOW_MS - 1000),
        7,
        [
            (ended(NOW_MS), NOW_MS + 1000),
            (job(), None),
            (job(holder="a", lease_until=NOW_MS + 5), NOW_MS + 1005),
            (job(holder="a", lease_until=NOW_MS + 5, max_attempts=2), None),
        ],
    ),
    (
        Kind.CONVERSATION,
        TALK,
        2,
        [(row(metadata="{}", expires=NOW_MS + 1), NOW_MS + 1), (row(metadata="{}", expires=None), None)],
    ),
]


@pytest.mark.parametrize(("kind", "over", "size_bytes", "_staying"), OTHERS)
def test_an_expired_row_is_reclaimed(kind: Kind, over: Row, size_bytes: int, _staying: Any) -> None:
    rows = {(kind, "x"): over, (Kind.SESSION, "x"): None}
    taken, program = reclaimed(partial(sweeping.reclaim, kind=kind, row_id="x"), rows)
    assert taken == size_bytes
    assert {("delete", kind, "x"), ("unfile", Index.ENDS, "", f"{kind}/x")} <= set(shown(program))


@pytest.mark.parametrize(("kind", "_over", "_size", "staying"), OTHERS)
def test_a_row_that_is_not_expired_stays(kind: Kind, _over: Row, _size: int, staying: Any) -> None:
    for there, at in [(None, None), *staying]:
        taken, program = reclaimed(
            partial(sweeping.reclaim, kind=kind, row_id="x"),
            {(kind, "x"): there, (Kind.SESSION, "x"): None},
        )
        assert taken is None
        assert again_at(program) == at


def test_a_log_is_reclaimed_with_its_batches_and_a_job_with_its_ticket() -> None:
    log = decided(partial(sweeping.reclaim, kind=Kind.LOG, row_id="x"), {(Kind.LOG, "x"): row(until=NOW_MS, size=7)})
    assert ("delete_below", Kind.BATCH, "x/") in shown(log)
    ticket = decided(partial(sweeping.reclaim, kind=Kind.JOB, row_id="x"), {(Kind.JOB, "x"): ended(NOW_MS - 1000)})
    assert ("unfile", Index.QUEUE, "q", "x") in shown(ticket)


@pytest.mark.parametrize(("expires", "goes"), [(NOW_MS, True), (NOW_MS + 1, False)])
def test_an_expired_key_is_reclaimed_without_being_counted(expires: int, goes: bool) -> None:
    taken, program = reclaimed(
        partial(sweeping.reclaim, kind=Kind.KEY, row_id="k"), {(Kind.KEY, "k"): row(expires=expires)}
    )
    assert taken is None
    assert (("delete", Kind.KEY, "k") in shown(program)) is goes
    if not goes:
        assert again_at(program) == expires
