"""Exports during concurrent writes. tests/contract/store/test_operations.py tests the content of exports."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.operations.exporting import export
from antiphon.operations.importing import import_lines
from antiphon.operations.verifying import verify
from antiphon_core.errors import InternalError, JobNotFound
from antiphon_core.jsons import loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.rows.model import Kind, Outcome, Partition, Program, Ref
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from antiphon_store.topics.trees import tree_of
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.stored_tenant import StoredTenant


def ignore_progress(_count: int) -> None:
    """Ignores the progress."""


class BusyRows(MaintainedMemory):
    """Rows in which a turn ends and a log grows before and after each read of an export."""

    stored: StoredTenant | None = None

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        await self._write()
        outcome = await super().transact(partition, program)
        await self._write()
        return outcome

    async def _write(self) -> None:
        stored, self.stored = self.stored, None
        if stored is None:
            return
        store, log = StoreService(self), stored.running.id
        await stored._turn(store)
        end = (await store._read_log(stored.tenant, log, 0)).next_position
        await store.append_events(stored.tenant, EventAppend(log, end, 1, b"data: {}\n\n"))
        await store.put(stored.tenant, draft(stored.line[-1]))
        self.stored = stored


async def test_an_export_during_writes_is_consistent(empty: MaintainedMemory) -> None:
    rows, stored = BusyRows(), StoredTenant("acme")
    await rows.open()
    await stored.fill(StoreService(rows))
    rows.stored = stored
    lines: list[bytes] = []
    await export(rows, rows.maintenance, "acme", lines.append, ignore_progress)
    written: list[Any] = [loads(line) for line in lines]
    rows.stored = None

    await import_lines(empty, empty.maintenance, lines, ignore_progress)
    assert [each async for each in verify(empty, empty.maintenance, None, ignore_progress)] == []
    log = await StoreService(empty)._read_log("acme", stored.running.id, 0)
    assert sum(batch.count for batch in log.batches) == log.next_position
    nodes = {each["id"] for each in written if each.get("kind") == Kind.NODE}
    assert len(stored.line) > 4, "nobody wrote"
    assert {each.id for each in stored.line[:3]} <= nodes


async def test_an_export_of_a_sealed_store_has_all_rows_that_can_be_decrypted(
    rows: MaintainedMemory, empty: MaintainedMemory
) -> None:
    sealed_rows, stored = seal_rows(rows, SealingKeys.ephemeral()), StoredTenant("acme")
    await stored.fill(StoreService(sealed_rows))
    damaged, *others = stored.line
    tree, ref = rows.trees[tree_of("acme", damaged.id)].rows, Ref(Kind.NODE, damaged.id)
    tree[ref] = tree[ref]._replace(items=tree[ref].items[:-1])
    job = Ref(Kind.JOB, stored.running.id)
    jobs = rows.trees[tree_of("acme", job.id)].rows
    jobs[job] = jobs[job]._replace(body=jobs[job].body[:-1])
    lines: list[bytes] = []
    await export(sealed_rows, rows.maintenance, "acme", lines.append, ignore_progress)
    await import_lines(empty, empty.maintenance, lines, ignore_progress)
    store = StoreService(empty)
    with pytest.raises(InternalError, match="damaged"):
        await store.get("acme", damaged.id)
    for each in others:
        assert (await store.get("acme", each.id)).body == each.body
    with pytest.raises(JobNotFound):
        await store.describe_job("acme", job.id)
