"""Exports while others write. What an export has: tests/contract/store/test_operations.py."""

from __future__ import annotations

from typing import Any

from antiphon_core.jsons import loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.operations.exporting import export
from antiphon_store.operations.importing import import_lines
from antiphon_store.operations.verifying import verify
from antiphon_store.rows.model import Kind, Outcome, Partition, Program
from antiphon_store.testing.subject import draft
from antiphon_store.values import Write
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.stored_tenant import StoredTenant


def unseen(_count: int) -> None:
    """Progress that nobody looks at."""


class BusyRows(MaintainedMemory):
    """Before and after each read of an export another turn ends in the session, and its log grows."""

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
        engine, log = StoreEngine(self), stored.running.id
        await stored._turn(engine)
        end = (await engine.read_log(stored.tenant, log, position=0, max_bytes=1)).next_position
        await engine.append_events(stored.tenant, EventAppend(log, end, 1, b"data"), fence=None, ttl_ms=10**9)
        await engine.put(stored.tenant, Write(draft(stored.line[-1])))
        self.stored = stored


async def test_an_export_beside_writers_is_whole(empty: MaintainedMemory) -> None:
    rows, stored = BusyRows(), StoredTenant("acme")
    await rows.open()
    await stored.fill(StoreEngine(rows))
    rows.stored = stored
    lines: list[bytes] = []
    await export(rows, rows.maintenance, "acme", lines.append, unseen)
    written: list[Any] = [loads(line) for line in lines]
    rows.stored = None

    await import_lines(empty, empty.maintenance, lines, unseen)
    assert [each async for each in verify(empty, empty.maintenance, None, unseen)] == []
    log = await StoreEngine(empty).read_log("acme", stored.running.id, position=0, max_bytes=2**20)
    assert sum(batch.count for batch in log.batches) == log.next_position
    nodes = {each["id"] for each in written if each.get("kind") == Kind.NODE}
    assert len(stored.line) > 4, "nobody wrote"
    assert {each.id for each in stored.line[:3]} <= nodes
