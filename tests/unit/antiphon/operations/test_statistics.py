from __future__ import annotations

from antiphon.operations.statistics import statistics
from antiphon_core.jsons import dumps
from antiphon_store.rows.model import Kind, Partition, Program, Put, Ref
from tests.support.memory_maintenance import MaintainedMemory


async def test_rows_and_bytes_are_counted_by_tenant_and_kind(empty: MaintainedMemory) -> None:
    for tenant, tree, row_id in [("b", "t", "x"), ("a", "t", "x"), ("a", "u", "y")]:
        await empty.transact(
            Partition(tenant, tree), Program(changes=[Put(Ref(Kind.JOB, row_id), {"n": 1}, body=b"four")])
        )
    size = len(dumps({"n": 1, "v": 1})) + 4
    seen: list[int] = []
    found = await statistics(empty.maintenance, None, seen.append)
    assert list(found.items()) == [(("a", Kind.JOB), (2, 2 * size)), (("b", Kind.JOB), (1, size))]
    assert list(await statistics(empty.maintenance, "b", seen.append)) == [("b", Kind.JOB)]
    assert sum(seen) == 4
