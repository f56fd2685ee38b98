"""Index entries derived from a row. tests/contract/store compares them with the entries that operations write."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.operations.entries import entries_of
from antiphon.operations.exporting import export
from antiphon.operations.importing import import_lines
from antiphon_core.ports.jobs import JobOutcome
from antiphon_core.ports.store import Fence
from antiphon_store.rows.model import Index, Kind, Partition, Ref, Row, Span, Unfile, made_id
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.rows import node
from tests.support.stored_tenant import StoredTenant

Lines = dict[tuple[Partition, Index, str, str], int]


async def entries(rows: MaintainedMemory) -> Lines:
    found: Lines = {}
    async for partition, index, key in rows.maintenance.index_keys("acme"):
        _, page = await rows.page(partition, index, key, Span(1000))
        found |= {(partition, index, key, each.id): each.at for each in page}
    return found


async def test_an_import_writes_the_entries_of_the_original_operations(
    rows: MaintainedMemory, empty: MaintainedMemory, stored: StoredTenant
) -> None:
    lines: list[bytes] = []
    await export(rows, rows.maintenance, stored.tenant, lines.append, lambda _count: None)
    await import_lines(empty, empty.maintenance, lines, lambda _count: None)
    expected, found = await entries(rows), await entries(empty)
    assert found.keys() == expected.keys()
    differing = {name[1] for name, at in found.items() if expected[name] != at}
    assert differing == {Index.HOLDER, Index.RESENT}, "there it only counts which job or lineage came last"


async def test_merging_an_older_export_adds_no_index_entries(rows: MaintainedMemory, stored: StoredTenant) -> None:
    lines: list[bytes] = []
    await export(rows, rows.maintenance, stored.tenant, lines.append, lambda _count: None)
    store = StoreService(rows)
    await store.delete(stored.tenant, stored.line[-1].id)
    await store.settle_job(stored.tenant, Fence(stored.running.id, 1), JobOutcome.SUCCEEDED)
    before = await entries(rows)
    await import_lines(rows, rows.maintenance, lines, lambda _count: None, may_merge=True)
    assert (await entries(rows)).keys() == before.keys()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"expires": None}, []),
        ({"expires": 50}, [50]),
        ({"expires": 50, "deleted": 1, "updated": 20}, [20]),  # can be reclaimed at once
        ({"expires": None, "deleted": 1, "added": 1}, []),  # added items are written as deleted
    ],
)
def test_an_expiring_or_deleted_node_is_a_candidate_at_its_time(fields: dict[str, Any], expected: list[int]) -> None:
    record = draft()
    found = entries_of(Ref(Kind.NODE, record.id), node(record, **fields))
    assert [each.at for each in found if not isinstance(each, Unfile) and each.of is Index.ENDS] == expected


def test_a_deleted_response_is_not_listed() -> None:
    record = draft(session_id="s")
    found = list(entries_of(Ref(Kind.NODE, record.id), node(record, deleted=1, depth=3)))
    assert Unfile(Index.MADE, "s", made_id(3, record.id)) in found


@pytest.mark.parametrize(
    ("fields", "queued_at", "held", "ends_at"),
    [
        ({}, 5, False, None),
        ({"holder": "h", "lease_until": 70}, 70, True, 170),
        ({"ended": ["failed", "", 30]}, None, False, 130),
    ],
)
def test_a_job_has_a_ticket_until_it_has_ended(
    fields: dict[str, Any], queued_at: int | None, held: bool, ends_at: int | None
) -> None:
    usual = {"queue": "q", "available": 5, "retention": 100, "holder": "", "lease_until": 0, "ended": None}
    usual |= {"cancel": 0, "attempts": 1, "max_attempts": 3}
    found = {each.of: each for each in entries_of(Ref(Kind.JOB, "j"), Row(usual | fields))}
    times = {index: each.at for index, each in found.items() if not isinstance(each, Unfile)}
    assert (times.get(Index.QUEUE), Index.HOLDER in found, times.get(Index.ENDS)) == (queued_at, held, ends_at)
