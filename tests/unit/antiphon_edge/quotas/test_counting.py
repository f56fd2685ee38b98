from __future__ import annotations

import asyncio
import logging

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StoreUnavailable, Unimplemented
from antiphon_core.ports.quotas import Draw, Hold, QuotaAnswer, QuotaRequest
from antiphon_edge.quotas.counting import PAUSE_S, STORE_TIMEOUT_S, OwnShare, SharedCounts, divide
from tests.support.waiting import until

SEVEN = QuotaRequest([Draw("requests", 1, 1, 7, 7)])


class Store:
    """A store that counts, raises `fault`, or does not answer."""

    def __init__(self, clock: ManualClock) -> None:
        self.counts = OwnShare(1, clock)
        self.asked = 0
        self.fault: Exception | None = None
        self.hangs = False
        self.cancelled = 0

    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        self.asked += 1
        if self.hangs:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        if self.fault is not None:
            raise self.fault
        return await self.counts.take_quota(tenant, quota_request)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock)


@pytest.fixture
def shared(store: Store, clock: ManualClock) -> SharedCounts:
    return SharedCounts(store, OwnShare(2, clock), clock)


async def admitted(counts: SharedCounts | OwnShare, times: int) -> int:
    return sum([(await counts.take_quota("acme", SEVEN)).shortage is None for _ in range(times)])


async def test_edges_share_the_counts_of_one_store(store: Store, shared: SharedCounts, clock: ManualClock) -> None:
    another = SharedCounts(store, OwnShare(2, clock), clock)
    assert await admitted(shared, 5) == 5
    assert await admitted(another, 5) == 2


@pytest.mark.parametrize("fault", [StoreUnavailable("gone"), Unimplemented("an older store")])
async def test_without_the_store_an_edge_counts_its_share_and_logs_once(
    store: Store, shared: SharedCounts, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store.fault = fault
    assert await admitted(shared, 10) == 3
    assert store.asked == 1
    (record,) = caplog.records
    assert (record.levelno, str(fault) in record.getMessage()) == (logging.WARNING, True)


async def test_one_request_per_pause_checks_whether_the_store_is_back(
    store: Store, shared: SharedCounts, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store.fault = StoreUnavailable("gone")
    for seconds in range(3):
        await admitted(shared, 5)
        assert store.asked == seconds + 1
        clock.advance(PAUSE_S)
    store.fault = None
    assert await admitted(shared, 10) == 7
    assert store.asked == 3 + 10
    assert [record.getMessage() for record in caplog.records][1:] == ["rate limits are shared again: the store answers"]


async def test_request_to_a_silent_store_times_out_and_is_counted_locally(
    store: Store, shared: SharedCounts, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon_edge.quotas.counting.STORE_TIMEOUT_S", 0.01)
    store.hangs = True
    outcomes = await asyncio.wait_for(asyncio.gather(*(admitted(shared, 1) for _ in range(10))), 30)
    assert sum(outcomes) == 3
    assert await admitted(shared, 5) == 0
    assert (store.asked, store.cancelled) == (10, 10)
    clock.advance(PAUSE_S)
    probing = asyncio.create_task(admitted(shared, 1))
    while store.asked == 10:
        await asyncio.sleep(0)
    await admitted(shared, 5)
    assert store.asked == 11  # one request probes the store, the others do not wait
    await probing


def test_store_timeout_is_at_most_a_quarter_of_a_second() -> None:
    assert STORE_TIMEOUT_S <= 0.25


async def test_cancelled_request_cancels_its_store_call(store: Store, shared: SharedCounts) -> None:
    store.hangs = True
    asking = asyncio.create_task(shared.take_quota("acme", SEVEN))
    await until(lambda: bool(store.asked), "the call of the store")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: bool(store.cancelled), "the end of the call")
    store.hangs = False
    assert (await shared.take_quota("acme", SEVEN)).shortage is None
    assert store.asked == 2  # the cancellation was not taken for a store outage


async def test_unexpected_error_is_raised_and_not_taken_for_a_store_outage(store: Store, shared: SharedCounts) -> None:
    store.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await shared.take_quota("acme", SEVEN)


async def test_each_of_several_edges_enforces_its_part(clock: ManualClock) -> None:
    edges = [OwnShare(2, clock) for _ in range(2)]
    assert [await admitted(edge, 10) for edge in edges] == [3, 3]
    (level,) = (await edges[0].take_quota("acme", SEVEN)).levels
    assert level.capacity == 3.5


def test_divided_request_has_a_share_of_the_rates_and_slots() -> None:
    whole = QuotaRequest([Draw("b", 5, 1, 60, 60), Draw("c", 5)], Hold(("p",), 100, most=3), ["q"])
    assert divide(whole, 1) == whole
    assert divide(whole, 2) == QuotaRequest([Draw("b", 5, 1, 30, 30), Draw("c", 5)], Hold(("p",), 100, most=2), ["q"])
    assert divide(QuotaRequest(hold=Hold(("p",), 100)), 2).hold == Hold(("p",), 100)


async def test_share_below_one_request_admits_one_request_at_intervals(clock: ManualClock) -> None:
    seldom, own = QuotaRequest([Draw("requests", 1, 1, 1, 1)]), OwnShare(3, clock)
    assert (await own.take_quota("acme", seldom)).shortage is None
    shortage = (await own.take_quota("acme", seldom)).shortage
    assert shortage is not None
    assert shortage.retry_after_ms == 180_000
    clock.advance(180)
    assert (await own.take_quota("acme", seldom)).shortage is None
