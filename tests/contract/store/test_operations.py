"""Maintenance of every database: an export that is imported into another database answers like the original."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from antiphon.operations.exporting import export
from antiphon.operations.files import OperationError
from antiphon.operations.importing import import_lines
from antiphon.operations.statistics import statistics
from antiphon.operations.verifying import verify
from antiphon_core.clock import ManualClock
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.jsons import canonical, loads
from antiphon_store.backends.sql_maintenance import LINES
from antiphon_store.rows.model import Change, Delete, File, Index, Kind, Partition, Program, Put, Ref, Set
from antiphon_store.service import StoreService
from tests.contract.store.row_backends import ROW_BACKENDS
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.stored_tenant import StoredTenant


def unseen(_count: int) -> None:
    """Ignores the progress."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


WITHOUT = {"lmdb": "the example leaves maintenance out: its keys are digests, so it cannot name those of an index"}
BACKENDS: dict[str, Callable[[ManualClock, Path], Any]] = {
    **{name: make for name, make in ROW_BACKENDS.items() if name not in WITHOUT},
    "memory": lambda clock, _folder: MaintainedMemory(clock),
}


@pytest.fixture(params=BACKENDS)
async def rows(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        opened = BACKENDS[request.param](clock, tmp_path)
        await opened.open()
        stack.push_async_callback(opened.close)
        yield opened


@pytest.fixture
async def memory(clock: ManualClock) -> MaintainedMemory:
    opened = MaintainedMemory(clock)
    await opened.open()
    return opened


@pytest.fixture
def stored() -> StoredTenant:
    return StoredTenant(f"tenant:{{*[{RandomIds().hex(8)}]")


@pytest.fixture
async def other(rows: Any, clock: ManualClock) -> StoredTenant:
    """Another tenant of the same database, whose name begins with the same characters."""
    found = StoredTenant(f"tenant:{{*[{RandomIds().hex(8)}]")
    await found.fill(StoreService(rows))
    return found


async def exported(rows: Any, tenant: str) -> list[bytes]:
    lines: list[bytes] = []
    await export(rows, rows.maintenance, tenant, lines.append, unseen)
    return lines


def comparable(lines: list[bytes]) -> list[bytes]:
    """Sorts the lines, and removes the field that every change sets anew."""
    values = [loads(line) for line in lines]
    for each in values:
        each.get("fields", {}).pop("v", None)
    return sorted(canonical(each) for each in values)


async def findings(rows: Any, tenant: str) -> list[tuple[bool, str]]:
    return [(each.is_damage, each.text) async for each in verify(rows, rows.maintenance, tenant, unseen)]


async def test_an_export_imported_elsewhere_and_back_answers_the_same(
    rows: Any, memory: MaintainedMemory, clock: ManualClock, stored: StoredTenant
) -> None:
    here, there = StoreService(rows), StoreService(memory)
    await stored.fill(here)
    expected, lines = await stored.answers(here), await exported(rows, stored.tenant)
    clock.advance(5)  # times come with the rows, not with the import
    await import_lines(memory, memory.maintenance, lines, unseen)
    assert await stored.answers(there) == expected
    assert comparable(await exported(memory, stored.tenant)) == comparable(lines)

    [_ async for _ in rows.maintenance.erase(stored.tenant)]
    await import_lines(rows, rows.maintenance, lines, unseen)
    assert await stored.answers(here) == expected
    assert comparable(await exported(rows, stored.tenant)) == comparable(lines)
    assert await findings(rows, stored.tenant) == []
    assert await stored.next_steps(here) == await stored.next_steps(there)


async def test_an_import_into_a_tenant_with_data_is_rejected_unless_merged(rows: Any, stored: StoredTenant) -> None:
    store = StoreService(rows)
    await stored.fill(store)
    expected, lines = await stored.answers(store), await exported(rows, stored.tenant)
    with pytest.raises(OperationError, match="has data already"):
        await import_lines(rows, rows.maintenance, lines, unseen)
    imported = await import_lines(rows, rows.maintenance, lines, unseen, may_merge=True)
    assert imported == (0, len(lines) - 2)
    assert await stored.answers(store) == expected
    assert comparable(await exported(rows, stored.tenant)) == comparable(lines)


async def test_an_erased_tenant_is_gone_and_other_tenants_are_kept(
    rows: Any, stored: StoredTenant, other: StoredTenant
) -> None:
    store = StoreService(rows)
    await stored.fill(store)
    kept = await exported(rows, other.tenant)
    [_ async for _ in rows.maintenance.erase(stored.tenant)]
    assert [each async for each in rows.maintenance.partitions(stored.tenant)] == []
    assert [each async for each in rows.maintenance.index_keys(stored.tenant)] == []
    assert stored.tenant not in await rows.tenants()
    assert await exported(rows, other.tenant) == kept
    assert await findings(rows, other.tenant) == []


async def test_many_trees_rows_and_keys_are_all_named_once(rows: Any, stored: StoredTenant) -> None:
    tenant, count = stored.tenant, 2 * LINES + 50
    programs = [
        (
            Partition(tenant, f"tree {n}"),
            [File(Index.FOREIGN, f"item {n}", "r"), File(Index.CHILDREN, f"node {n}", "r")],
        )
        for n in range(count)
    ]
    row = Put(Ref(Kind.SESSION, "s"), {"head": None})
    for start in range(0, count, 50):
        some = programs[start : start + 50]
        await asyncio.gather(*[rows.transact(tree, Program(changes=[row, *entries])) for tree, entries in some])
    large = Partition(tenant, "tree 0")
    await rows.transact(large, Program(changes=[Put(Ref(Kind.SESSION, f"s{n}"), {"n": n}) for n in range(count)]))

    named = [each async for each in rows.maintenance.partitions(tenant)]
    assert sorted(named) == sorted(tree for tree, _ in programs)
    ids = [each.ref.id for each in await rows.maintenance.names(large)]
    assert sorted(ids) == sorted(["s", *[f"s{n}" for n in range(count)]])
    keys = [each async for each in rows.maintenance.index_keys(tenant)]
    assert len(keys) == 2 * count
    assert set(keys) == {
        *[(Partition(tenant, ""), Index.FOREIGN, f"item {n}") for n in range(count)],
        *[(tree, Index.CHILDREN, f"node {n}") for n, (tree, _) in enumerate(programs)],
    }
    [_ async for _ in rows.maintenance.erase(tenant)]
    assert [each async for each in rows.maintenance.partitions(tenant)] == []
    assert [each async for each in rows.maintenance.index_keys(tenant)] == []


async def test_statistics_of_every_backend_equal_those_of_memory(
    rows: Any, memory: MaintainedMemory, stored: StoredTenant
) -> None:
    await stored.fill(StoreService(rows))
    found = await statistics(rows.maintenance, stored.tenant, unseen)
    await import_lines(memory, memory.maintenance, await exported(rows, stored.tenant), unseen)
    expected = await statistics(memory.maintenance, None, unseen)
    without_quotas = {key: amount.rows for key, amount in found.items() if key[1] is not Kind.QUOTA}
    assert without_quotas == {key: amount.rows for key, amount in expected.items()}
    assert {kind for _tenant, kind in expected} == set(Kind) - {Kind.QUOTA, Kind.LINE}
    assert found[stored.tenant, Kind.NODE].size > sum(len(each.body) for each in stored.line)
    everything = await statistics(rows.maintenance, None, unseen)
    assert found.items() <= everything.items()


async def test_a_verification_distinguishes_damage_from_hints(rows: Any, stored: StoredTenant) -> None:
    await stored.fill(StoreService(rows))
    assert await findings(rows, stored.tenant) == []
    tree = Partition(stored.tenant, stored.session[5:21])
    root, middle, newest = (each.id for each in stored.line)
    changes: list[Change] = [
        Set(Ref(Kind.NODE, newest), {}, items=b'{"id":"forged"}'),
        Set(Ref(Kind.NODE, stored.branch.id), {"depth": 7}, body=b"{}"),
        Set(Ref(Kind.BATCH, f"{stored.running.id}/{1:012d}"), {}, items=b"other frames"),
        Delete(Ref(Kind.BATCH, f"{stored.running.id}/{0:012d}")),
        Delete(Ref(Kind.NODE, root)),
        Set(Ref(Kind.SESSION, stored.session), {"head": "resp_gone"}),
        File(Index.FOREIGN, "item", new_response_id(RandomIds())),
    ]
    await rows.transact(tree, Program(changes=changes))
    found = await findings(rows, stored.tenant)
    assert sorted(text for is_damage, text in found if is_damage) == sorted(
        [
            f"node {newest}: the checksum of its items differs",
            f"node {stored.branch.id}: the checksum of its body differs",
            f"batch {stored.running.id}/{1:012d}: the checksum of its frames differs",
            f"log {stored.running.id}: its events from 0 on are missing",
            f"node {middle}: its parent {root} is missing",
            f"node {stored.branch.id}: its parent {root} is missing",
        ]
    )
    hints = [text for is_damage, text in found if not is_damage]
    assert f"session {stored.session}: it names node resp_gone, which is not there" in hints
    assert any(text.startswith("index foreign item: it names node") for text in hints)
