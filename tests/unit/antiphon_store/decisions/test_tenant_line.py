"""The line of tenants as a value. tests/unit/antiphon_store/topics/test_tenant_line.py tests it in a store."""

from __future__ import annotations

from functools import partial

import pytest

from antiphon_core.ports.jobs import DISPATCH_QUEUE
from antiphon_store.decisions import tenant_line
from antiphon_store.decisions.jobs import LOOK_MS
from antiphon_store.rows.model import Delete, File, Index, Kind, Now, Row, Unfile
from tests.support.rows import NOW_MS, decided, fields_of, row

LINE = (Kind.LINE, "acme")
join = partial(tenant_line.join, tenant="acme", places=2)


def row_in_line(at: int = NOW_MS, places: int = 2) -> Row:
    return row(at=at, joins=5, places=places)


def test_a_tenant_joins_with_all_its_places() -> None:
    program = decided(join, {LINE: None})
    assert [(each.id, each.at) for each in program.changes if isinstance(each, File)] == [
        ("0/acme", Now()),
        ("1/acme", Now()),
    ]


def test_joining_again_keeps_the_places_of_a_tenant_in_line() -> None:
    program = decided(join, {LINE: row_in_line()})
    assert not [each for each in program.changes if isinstance(each, File)]
    assert "joins" in fields_of(program, Kind.LINE)


def test_a_tenant_that_waits_for_a_delayed_job_joins_again_at_once() -> None:
    program = decided(join, {LINE: row_in_line(at=NOW_MS + 9)})
    assert File(Index.QUEUE, DISPATCH_QUEUE, "1/acme", Now()) in program.changes


def test_a_reminder_about_a_tenant_in_line_writes_nothing() -> None:
    assert not decided(partial(join, only_missing=True), {LINE: row_in_line()}).changes


def test_a_tenant_without_jobs_is_removed_from_the_line() -> None:
    program = decided(partial(tenant_line.leave, tenant="acme", seen=row_in_line(), due_at=None), {LINE: row_in_line()})
    assert [each for each in program.changes if isinstance(each, Delete)]
    assert [each.id for each in program.changes if isinstance(each, Unfile)] == ["0/acme", "1/acme"]


@pytest.mark.parametrize(("due_in_ms", "looked_at_in_ms"), [(9, 9), (10 * LOOK_MS, LOOK_MS)])
def test_a_tenant_leaves_until_its_next_job_is_due(due_in_ms: int, looked_at_in_ms: int) -> None:
    leave = partial(tenant_line.leave, tenant="acme", seen=row_in_line(), due_at=NOW_MS + due_in_ms)
    program = decided(leave, {LINE: row_in_line()})
    assert File(Index.QUEUE, DISPATCH_QUEUE, "0/acme", NOW_MS + looked_at_in_ms) in program.changes


def test_a_tenant_that_enqueued_during_a_leave_stays_in_line() -> None:
    leave = partial(tenant_line.leave, tenant="acme", seen=row(at=NOW_MS, joins=4, places=2), due_at=None)
    assert not decided(leave, {LINE: row_in_line()}).changes


def test_the_tenant_is_read_from_a_place_id() -> None:
    assert tenant_line.tenant_of(tenant_line.place_id("a/b", 3)) == "a/b"
