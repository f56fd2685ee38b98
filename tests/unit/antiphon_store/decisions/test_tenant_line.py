"""The line of tenants as a value. At work: `engine/test_tenant_line.py`."""

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


def standing(at: int = NOW_MS, places: int = 2) -> Row:
    return row(at=at, joins=5, places=places)


def test_a_tenant_joins_with_all_its_places() -> None:
    program = decided(join, {LINE: None})
    assert [(each.id, each.at) for each in program.changes if isinstance(each, File)] == [
        ("0/acme", Now()),
        ("1/acme", Now()),
    ]


def test_a_tenant_that_stands_in_line_keeps_its_place() -> None:
    program = decided(join, {LINE: standing()})
    assert not [each for each in program.changes if isinstance(each, File)]
    assert "joins" in fields_of(program, Kind.LINE)


def test_a_tenant_that_waits_for_a_later_job_comes_back() -> None:
    program = decided(join, {LINE: standing(at=NOW_MS + 9)})
    assert File(Index.QUEUE, DISPATCH_QUEUE, "1/acme", Now()) in program.changes


def test_a_reminder_about_a_tenant_in_line_writes_nothing() -> None:
    assert not decided(partial(join, only_missing=True), {LINE: standing()}).changes


def test_a_tenant_without_jobs_leaves_for_good() -> None:
    program = decided(partial(tenant_line.leave, tenant="acme", seen=standing(), due_at=None), {LINE: standing()})
    assert [each for each in program.changes if isinstance(each, Delete)]
    assert [each.id for each in program.changes if isinstance(each, Unfile)] == ["0/acme", "1/acme"]


@pytest.mark.parametrize(("due_in_ms", "looked_at_in_ms"), [(9, 9), (10 * LOOK_MS, LOOK_MS)])
def test_a_tenant_leaves_until_its_next_job_is_due(due_in_ms: int, looked_at_in_ms: int) -> None:
    leave = partial(tenant_line.leave, tenant="acme", seen=standing(), due_at=NOW_MS + due_in_ms)
    program = decided(leave, {LINE: standing()})
    assert File(Index.QUEUE, DISPATCH_QUEUE, "0/acme", NOW_MS + looked_at_in_ms) in program.changes


def test_a_tenant_that_enqueued_meanwhile_stays() -> None:
    leave = partial(tenant_line.leave, tenant="acme", seen=row(at=NOW_MS, joins=4, places=2), due_at=None)
    assert not decided(leave, {LINE: standing()}).changes


def test_a_place_names_its_tenant() -> None:
    assert tenant_line.tenant_of(tenant_line.place_id("a/b", 3)) == "a/b"
