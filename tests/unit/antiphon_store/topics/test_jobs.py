"""The service's own part in jobs. `antiphon_store.testing.jobs` tests the behaviour of jobs."""

from __future__ import annotations

import asyncio

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import JobNotFound
from antiphon_store.opening import open_backend
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.jobs import new_draft

TENANT = "t"


async def service(clock: ManualClock, **settings: int) -> StoreService:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    return StoreService(backend, StoreSettings(**settings))  # type: ignore[arg-type]


async def test_a_job_enqueued_in_this_process_wakes_who_waits_for_it(clock: ManualClock) -> None:
    store = await service(clock, job_poll_ms=3_600_000)
    waiting = asyncio.create_task(store.claim_job(TENANT, ["q"], holder="a", wait_ms=60_000))
    await asyncio.sleep(0.01)
    draft = new_draft()
    await store.enqueue_job(TENANT, draft)
    job = await asyncio.wait_for(waiting, 30)
    assert job is not None
    assert job.id == draft.id


async def test_how_long_an_ended_job_is_remembered_is_a_setting(clock: ManualClock) -> None:
    store = await service(clock, job_ttl_s=5)
    draft = new_draft()
    await store.enqueue_job(TENANT, draft)
    assert await store.cancel_job(TENANT, draft.id)
    clock.advance(4.999)
    assert await store.cancel_job(TENANT, draft.id)
    clock.advance(0.001)
    with pytest.raises(JobNotFound):
        await store.cancel_job(TENANT, draft.id)
