"""Prompts lie in a partition of their own: they come and go without a tree of responses."""

from __future__ import annotations

from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rows.model import Partition
from tests.support.rows import SpiedRows

ID = "pmpt_" + "0" * 48


async def test_all_of_a_tenant_lies_in_one_partition(engine: StoreEngine, rows: SpiedRows) -> None:
    await engine.put_prompt("t", ID, 1, b"{}")
    await engine.fetch_prompt("t", ID, None)
    assert [each.id for each in await engine.list_prompts("t")] == [ID]
    await engine.remove_prompt("t", ID)
    assert await engine.list_prompts("t") == []
    assert {partition for partition, _program in rows.programs} == {Partition("t", "prompts")}
