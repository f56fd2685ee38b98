"""Findings that no race can cause. tests/contract/store/test_operations.py tests each kind of damage."""

from __future__ import annotations

import pytest

from antiphon.operations.verifying import verify
from antiphon_store.rows.model import (
    Applied,
    Chain,
    Change,
    Delete,
    File,
    Index,
    Kind,
    Outcome,
    Partition,
    Program,
    Put,
    Ref,
    Set,
)
from tests.support.memory_maintenance import MaintainedMemory
from tests.support.stored_tenant import StoredTenant


async def found_after(rows: MaintainedMemory, partition: Partition, *changes: Change) -> list[tuple[bool, str]]:
    await rows.transact(partition, Program(changes=changes))
    return [(each.is_damage, each.text) async for each in verify(rows, rows.maintenance, None, lambda _count: None)]


@pytest.fixture
def tree(stored: StoredTenant) -> Partition:
    return Partition("acme", stored.session[5:21])


async def test_an_undamaged_tenant_has_no_findings(rows: MaintainedMemory, tree: Partition) -> None:
    assert await found_after(rows, tree) == []


async def test_a_depth_that_does_not_follow_the_parent_is_damage(
    rows: MaintainedMemory, tree: Partition, stored: StoredTenant
) -> None:
    node = stored.branch.id
    found = await found_after(rows, tree, Set(Ref(Kind.NODE, node), {"depth": 5}))
    assert found == [(True, f"node {node}: its depth 5 is not the one behind its parent")]


async def test_a_gap_inside_a_log_is_damage(rows: MaintainedMemory, tree: Partition, stored: StoredTenant) -> None:
    log = stored.running.id
    found = await found_after(rows, tree, Delete(Ref(Kind.BATCH, f"{log}/{1:012d}")))
    assert found == [(True, f"log {log}: its events from 1 on are missing")]


async def test_an_incomplete_chain_is_damage(
    rows: MaintainedMemory, tree: Partition, stored: StoredTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    transact = MaintainedMemory.transact

    async def without_roots(self: MaintainedMemory, partition: Partition, program: Program) -> Outcome:
        outcome = await transact(self, partition, program)
        if any(isinstance(each, Chain) for each in program.reads):
            assert isinstance(outcome, Applied)
            return outcome._replace(answers=[chain._replace(ids=chain.ids[1:]) for chain in outcome.answers])
        return outcome

    monkeypatch.setattr(MaintainedMemory, "transact", without_roots)
    found = await found_after(rows, tree)
    assert (True, f"node {stored.branch.id}: the chain that ends with it is not whole") in found


async def test_pointers_and_keys_to_missing_rows_are_hints(rows: MaintainedMemory, tree: Partition) -> None:
    found = await found_after(
        rows,
        tree,
        Put(Ref(Kind.POINTER, "p"), {"tree": "elsewhere"}),
        Put(Ref(Kind.KEY, "k"), {"response": "resp_none", "expires": None}),
    )
    assert found == [
        (False, "pointer p: it names session p, which is not there"),
        (False, "key k: it names node resp_none, which is not there"),
    ]


@pytest.mark.parametrize(
    ("index", "key", "entry", "names"),
    [
        (Index.CHILDREN, "resp_a", "resp_none", "node resp_none"),
        (Index.MADE, "s", "00000001/resp_none", "node resp_none"),
        (Index.FOREIGN, "msg", "resp_none", "node resp_none"),
        (Index.QUEUE, "q", "resp_none", "job resp_none"),
        (Index.HOLDER, "q worker", "resp_none", "job resp_none"),
        (Index.ENDS, "", "log/resp_none", "log resp_none"),
    ],
)
async def test_index_entries_of_missing_rows_are_hints(
    rows: MaintainedMemory, tree: Partition, index: Index, key: str, entry: str, names: str
) -> None:
    found = await found_after(rows, tree, File(index, key, entry))
    assert found == [(False, f"index {index} {key}: it names {names}, which is not there")]
