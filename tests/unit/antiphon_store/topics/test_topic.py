"""Operations of one decision check their arguments and run in the partition of their subject."""

from __future__ import annotations

import pytest

from antiphon_core.errors import InvalidRequest, JobNotFound, StaleFence
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.limits import LEASE_TTL_MS_DEFAULT
from antiphon_core.ports.jobs import Jobs
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import records
from antiphon_store.rows.model import Partition
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.rows import SpiedRows

T = "t"


def partitions(rows: SpiedRows) -> set[Partition]:
    return {partition for partition, _ in rows.programs}


async def test_an_operation_on_a_response_runs_in_its_tree(store: StoreService, rows: SpiedRows) -> None:
    response_id = draft().id
    with pytest.raises(JobNotFound):
        await store.cancel_job(T, response_id)
    assert partitions(rows) == {Partition(T, tree_tag(response_id) or "")}


async def test_an_operation_on_a_session_runs_in_the_tree_of_its_name(store: StoreService, rows: SpiedRows) -> None:
    await store.acquire_session(T, "a-name", holder="h", ttl_ms=1000)
    assert partitions(rows) == {Partition(T, session_tag(T, "a-name"))}


async def test_an_operation_under_a_fence_runs_in_the_tree_of_its_session(store: StoreService, rows: SpiedRows) -> None:
    with pytest.raises(StaleFence):
        await store.renew_session(T, Fence("a-name", 1), ttl_ms=1000)
    assert partitions(rows) == {Partition(T, session_tag(T, "a-name"))}


async def test_an_operation_that_only_reads_changes_nothing(store: StoreService, rows: SpiedRows) -> None:
    await store.describe_session(T, "a-name")
    assert not any(program.changes for _, program in rows.programs)


async def test_arguments_are_checked_and_completed_by_the_port(store: StoreService) -> None:
    lease = await store.acquire_session(T, "a-name", holder="h", ttl_ms=1000)
    renewed = await store.renew_session(T, lease.fence)
    assert renewed.expires_at_ms == lease.expires_at_ms - 1000 + LEASE_TTL_MS_DEFAULT
    assert await store.renew_session(fence=lease.fence, tenant=T) == renewed
    with pytest.raises(InvalidRequest, match="ttl_ms"):
        await store.renew_session(T, lease.fence, ttl_ms=0)


def test_an_operation_has_the_docstring_of_its_port_or_decision() -> None:
    assert StoreService.get.__doc__ == records.get.__doc__
    assert StoreService.get.__name__ == "get"
    assert StoreService.cancel_job.__doc__ == Jobs.cancel_job.__doc__
