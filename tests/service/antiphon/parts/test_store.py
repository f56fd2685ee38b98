from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from antiphon.parts.store import StorePart
from antiphon_core.clock import ManualClock, SystemClock
from antiphon_core.limits import LEASE_WAIT_MS_MAX
from antiphon_store.client import StoreClient
from antiphon_store.settings import StoreSettings
from tests.support.local_settings import settings


async def test_a_started_store_part_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_core.rpc.client.READY_DEADLINE_S", 30.0)
    part = StorePart(settings(), SystemClock())
    await part.start()
    client = StoreClient(part.address)
    await client.ready()
    await part.stop()
    await client.close()


@pytest.mark.parametrize(("sweep_s", "sweeps"), [(60, True), (None, False)])
async def test_the_sweeper_runs_only_while_the_store_part_runs(sweep_s: int | None, sweeps: bool) -> None:
    part = StorePart(replace(settings(), store=StoreSettings(url="memory://", port=0, sweep_s=sweep_s)), ManualClock())
    await part.start()
    running = {task.get_name() for task in asyncio.all_tasks()}
    await part.stop()
    assert ("sweeper" in running) is sweeps
    assert "sweeper" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_waiting_claim_ends_when_the_store_part_stops() -> None:
    part = StorePart(replace(settings(), store=StoreSettings(url="memory://", port=0, drain_s=3600)), SystemClock())
    await part.start()
    async with StoreClient(part.address) as client:
        claiming = asyncio.create_task(
            client.claim_job("t", ["q"], holder="h", lease_ttl_ms=60_000, wait_ms=LEASE_WAIT_MS_MAX)
        )
        while not part.service._claimers._lines:
            await asyncio.sleep(0.001)
        await part.stop()
        assert await claiming is None
