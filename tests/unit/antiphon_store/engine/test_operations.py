"""Operations that are made of one decision run it where their subject is, and promise what it says."""

from __future__ import annotations

import pytest

from antiphon_core.errors import JobNotFound, StaleFence
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import leases, records
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rows.model import Partition
from antiphon_store.testing.subject import draft
from tests.support.rows import SpiedRows

T = "t"


def partitions(rows: SpiedRows) -> set[Partition]:
    return {partition for partition, _ in rows.programs}


async def test_an_operation_on_a_response_runs_in_its_tree(engine: StoreEngine, rows: SpiedRows) -> None:
    response_id = draft().id
    with pytest.raises(JobNotFound):
        await engine.cancel_job(T, response_id)
    assert partitions(rows) == {Partition(T, tree_tag(response_id) or "")}


async def test_an_operation_on_a_session_runs_in_the_tree_of_its_name(engine: StoreEngine, rows: SpiedRows) -> None:
    await engine.acquire_lease(T, "a name", holder="h", ttl_ms=1000)
    assert partitions(rows) == {Partition(T, session_tag(T, "a name"))}


async def test_an_operation_under_a_fence_runs_in_the_tree_of_its_session(engine: StoreEngine, rows: SpiedRows) -> None:
    with pytest.raises(StaleFence):
        await engine.renew_lease(T, Fence("a name", 1), ttl_ms=1000)
    assert partitions(rows) == {Partition(T, session_tag(T, "a name"))}


async def test_an_operation_that_only_reads_changes_nothing(engine: StoreEngine, rows: SpiedRows) -> None:
    await engine.describe_session(T, "a name")
    assert not any(program.changes for _, program in rows.programs)


def test_an_operation_promises_what_its_decision_says() -> None:
    assert StoreEngine.fetch.__doc__ == records.fetch.__doc__
    assert StoreEngine.acquire_lease.__doc__ == leases.acquire.__doc__
