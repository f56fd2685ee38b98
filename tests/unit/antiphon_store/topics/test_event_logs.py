"""The service's own part in event logs. `antiphon_store.testing.event_logs` tests the behaviour of event logs."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import LogNotFound
from antiphon_core.ids import tree_tag
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.event_logs import append_at, frame, new_id
from tests.support.rows import SpiedRows

TENANT = "t"


async def test_an_append_in_this_process_wakes_its_followers(rows: SpiedRows) -> None:
    store = StoreService(rows, StoreSettings(event_poll_ms=3_600_000))
    response_id = new_id()
    await store.append_events(TENANT, append_at(response_id, 0))
    async with aclosing(store.read_events(TENANT, response_id, follow=True)) as batches:
        await anext(batches)
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await store.append_events(TENANT, append_at(response_id, 1))
        assert (await asyncio.wait_for(waiting, 30)).frames == frame(1)


async def test_the_event_log_ttl_setting_limits_the_life_of_a_log(rows: SpiedRows, clock: ManualClock) -> None:
    store = StoreService(rows, StoreSettings(event_log_ttl_s=5))
    response_id = new_id()
    await store.append_events(TENANT, append_at(response_id, 0))
    clock.advance(4.999)
    assert [batch.count async for batch in store.read_events(TENANT, response_id)] == [1]
    clock.advance(0.001)
    with pytest.raises(LogNotFound):
        await anext(store.read_events(TENANT, response_id))


async def test_a_read_without_follow_omits_later_events(store: StoreService) -> None:
    response_id = new_id()
    await store.append_events(TENANT, append_at(response_id, 0))
    async with aclosing(store.read_events(TENANT, response_id)) as batches:
        assert (await anext(batches)).count == 1
        await store.append_events(TENANT, append_at(response_id, 1))
        assert [batch async for batch in batches] == []


async def test_a_log_is_read_in_the_tree_of_its_response(store: StoreService, rows: SpiedRows) -> None:
    response_id = new_id()
    for position in (0, 1):
        await store.append_events(TENANT, append_at(response_id, position))
    rows.forget_calls()
    assert [batch.frames async for batch in store.read_events(TENANT, response_id, after=0)] == [frame(1)]
    assert {partition.tree for partition, _ in rows.programs} == {tree_tag(response_id)}
