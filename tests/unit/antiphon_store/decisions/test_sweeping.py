"""Cleanup, case by case. Through a store: `antiphon_store.testing.sweeping`."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from antiphon_core.ports.jobs import JobState
from antiphon_store.decisions import sweeping
from antiphon_store.decisions.sweeping import Family
from antiphon_store.rows.model import Condition, Entry, File, Index, Kind, Program, Row, made_id
from antiphon_store.rows.view import UnknownRow
from antiphon_store.testing.conversations import array
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, decided, guards_on, node, pins, row, shown, view_of

PARENT = draft()
RECORD = draft(PARENT, session_id="s", input_items=array("a"), output_items=array("b"))
REF, SESSION = (Kind.NODE, RECORD.id), (Kind.SESSION, "s")
DEAD = node(RECORD, deleted=1, depth=1)
V = DEAD.fields["v"]
ALONE = Family(V, [], [])
HEADED = Family(V, [], [("s", row(head=RECORD.id)), ("t", row(head="another"))])
WITH_CHILD = Family(V, [Entry("child", 0)], [])
NAMED = (Index.ENDS, "", f"node/{RECORD.id}")
reclaim_node = partial(sweeping.reclaim_node, response_id=RECORD.id)


def reclaimed(decision: Any, rows: Any) -> tuple[int | None, Program]:
    view = view_of(rows)
    return decision(view)(()), view.program()


def again_at(program: Program) -> int | None:
    """When the candidate is looked at again; None when it was dropped."""
    (change,) = program.changes
    if isinstance(change, File):
        assert change.of is Index.ENDS
        assert isinstance(change.at, int)
        return change.at
    return None


# ---- Nodes ----


@pytest.mark.parametrize("there", [DEAD, node(RECORD, expires=NOW_MS, depth=1)])
def test_a_dead_node_goes_with_its_entries_and_names_its_parent(there: Row) -> None:
    taken, program = reclaimed(partial(reclaim_node, family=ALONE), {REF: there})
    assert taken == there.fields["size"]
    assert shown(program) == [
        ("delete", *REF),
        ("unfile", *NAMED),
        ("unfile", Index.MADE, "s", made_id(1, RECORD.id)),
        ("unfile", Index.CHILDREN, PARENT.id, RECORD.id),
        ("file", Index.ENDS, "", f"node/{PARENT.id}"),
        ("unfile", Index.FOREIGN, "a", RECORD.id),
        ("unfile", Index.FOREIGN, "b", RECORD.id),
    ]
    assert REF in pins(program)


def test_an_expired_head_goes_too() -> None:
    taken, _ = reclaimed(partial(reclaim_node, family=HEADED), {REF: node(RECORD, deleted=1, expires=NOW_MS)})
    assert taken is not None


KEPT = [
    (None, ALONE, None),
    (node(RECORD), ALONE, None),
    (node(RECORD, expires=NOW_MS + 5), ALONE, NOW_MS + 5),  # its time was extended
    (DEAD, WITH_CHILD, None),
]


@pytest.mark.parametrize(("there", "family", "at"), KEPT)
def test_what_is_needed_is_dropped_or_looked_at_later(there: Row | None, family: Family, at: int | None) -> None:
    taken, program = reclaimed(partial(reclaim_node, family=family), {REF: there})
    assert taken is None
    assert again_at(program) == at


def test_a_head_is_dropped_as_long_as_it_is_the_head() -> None:
    with pytest.raises(UnknownRow) as caught:
        decided(partial(reclaim_node, family=HEADED), {REF: DEAD})
    assert caught.value.refs == (SESSION,)  # and no session beside it
    taken, program = reclaimed(partial(reclaim_node, family=HEADED), {REF: DEAD, SESSION: row(head=RECORD.id)})
    assert taken is None
    assert again_at(program) is None
    assert SESSION in pins(program)


@pytest.mark.parametrize("session", [None, row(head="moved on")])
def test_a_head_that_moved_on_meanwhile_is_looked_at_again(session: Row | None) -> None:
    """It may have got a child meanwhile, so it cannot go on the strength of what was read before."""
    taken, program = reclaimed(partial(reclaim_node, family=HEADED), {REF: DEAD, SESSION: session})
    assert taken is None
    assert again_at(program) == NOW_MS


def test_a_child_that_keeps_its_parent_is_guarded() -> None:
    """When it goes it names its parent anew. Without the guard that name could be dropped here."""
    program = decided(partial(reclaim_node, family=WITH_CHILD), {REF: DEAD})
    assert (Condition.PRESENT, "", None) in guards_on(program, Kind.NODE)
    _, program = reclaimed(partial(reclaim_node, family=WITH_CHILD), {REF: DEAD, (Kind.NODE, "child"): None})
    assert again_at(program) == NOW_MS


@pytest.mark.parametrize("dead_version", [None, V + 1])
def test_a_node_that_changed_since_its_family_was_read_is_left_alone(dead_version: int | None) -> None:
    """It could be read then, so that a session may have taken it as its head since."""
    taken, program = reclaimed(partial(reclaim_node, family=Family(dead_version, [], [])), {REF: DEAD})
    assert taken is None
    assert not program.changes


# ---- Others ----

JOB = row(queue="q", retention=1000, holder="", lease_until=0, cancel=0, attempts=1, max_attempts=1, ended=None)


def job(**fields: Any) -> Row:
    return Row({**JOB.fields, **fields}, b"", b"payload")


def ended(at: int) -> Row:
    return job(ended=[JobState.SUCCEEDED.value, "", at])


TALK = row(metadata="{}", expires=NOW_MS)
OTHERS = [
    # kind, row that may go, its bytes, [(row that stays, when it is looked at again)]
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
def test_what_is_over_goes(kind: Kind, over: Row, size_bytes: int, _staying: Any) -> None:
    rows = {(kind, "x"): over, (Kind.SESSION, "x"): None}
    taken, program = reclaimed(partial(sweeping.reclaim, kind=kind, row_id="x"), rows)
    assert taken == size_bytes
    assert {("delete", kind, "x"), ("unfile", Index.ENDS, "", f"{kind}/x")} <= set(shown(program))


@pytest.mark.parametrize(("kind", "_over", "_size", "staying"), OTHERS)
def test_what_is_not_over_stays(kind: Kind, _over: Row, _size: int, staying: Any) -> None:
    for there, at in [(None, None), *staying]:
        taken, program = reclaimed(
            partial(sweeping.reclaim, kind=kind, row_id="x"),
            {(kind, "x"): there, (Kind.SESSION, "x"): None},
        )
        assert taken is None
        assert again_at(program) == at


def test_a_log_goes_with_its_batches_and_a_job_with_its_ticket() -> None:
    log = decided(partial(sweeping.reclaim, kind=Kind.LOG, row_id="x"), {(Kind.LOG, "x"): row(until=NOW_MS, size=7)})
    assert ("delete_below", Kind.BATCH, "x/") in shown(log)
    ticket = decided(partial(sweeping.reclaim, kind=Kind.JOB, row_id="x"), {(Kind.JOB, "x"): ended(NOW_MS - 1000)})
    assert ("unfile", Index.QUEUE, "q", "x") in shown(ticket)


@pytest.mark.parametrize(("expires", "goes"), [(NOW_MS, True), (NOW_MS + 1, False)])
def test_a_key_goes_uncounted_when_its_time_is_over(expires: int, goes: bool) -> None:
    taken, program = reclaimed(
        partial(sweeping.reclaim, kind=Kind.KEY, row_id="k"), {(Kind.KEY, "k"): row(expires=expires)}
    )
    assert taken is None
    assert (("delete", Kind.KEY, "k") in shown(program)) is goes
    if not goes:
        assert again_at(program) == expires
