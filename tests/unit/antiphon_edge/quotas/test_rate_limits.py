from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from antiphon_core.clock import Clock, ManualClock
from antiphon_core.errors import AntiphonError, RequestRateExceeded, TokenRateExceeded
from antiphon_core.ids import RandomIds
from antiphon_core.ports.quotas import Draw, Hold, QuotaAnswer, QuotaRequest, Quotas
from antiphon_edge.quotas.counting import OwnShare
from antiphon_edge.quotas.rate_limits import BucketLevels, RateLimiter, RateLimits, StreamSlot, held_by_task

Make = Callable[..., RateLimiter]


class Counting:
    """Counts in this process, and keeps the quota requests."""

    def __init__(self, clock: Clock) -> None:
        self.inner = OwnShare(1, clock)
        self.asked: list[QuotaRequest] = []
        self.fault: BaseException | None = None

    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        self.asked.append(quota_request)
        answer = await self.inner.take_quota(tenant, quota_request)
        if self.fault is not None:
            raise self.fault
        return answer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def counts(clock: ManualClock) -> Counting:
    return Counting(clock)


@pytest.fixture
async def limiter(clock: ManualClock, counts: Counting) -> AsyncIterator[Make]:
    async with AsyncExitStack() as made:

        def make(counter: Quotas = counts, **limits: int) -> RateLimiter:
            limiting = RateLimiter(RateLimits(**limits), counter, clock=clock, ids=RandomIds())
            made.push_async_callback(limiting.close)
            return limiting

        yield make


async def rejected(counting: RateLimiter, tenant: str = "acme", *, generates: bool = True) -> AntiphonError:
    with pytest.raises(AntiphonError) as caught:
        await counting.admit(tenant, generates=generates)
    return caught.value


async def charged(counting: RateLimiter, tenant: str, tokens: int) -> None:
    counting.charge(tenant, tokens)
    await counting._settling.close()


async def test_request_over_the_rate_limit_is_rejected_with_the_time_to_retry(
    limiter: Make, clock: ManualClock
) -> None:
    counting = limiter(requests_per_minute=3)
    for _ in range(3):
        await counting.admit("acme", generates=False)
    error = await rejected(counting)
    assert isinstance(error, RequestRateExceeded)
    assert error.message == "Rate limit reached on requests per minute: Limit 3. Please try again in 20s."
    assert error.facts["retry_after_ms"] == "20000"
    clock.advance(19.9)
    assert (await rejected(counting)).facts["retry_after_ms"] == "100"
    clock.advance(0.1)
    await counting.admit("acme", generates=False)
    await rejected(counting)


async def test_one_tenant_does_not_use_up_the_quota_of_another(limiter: Make) -> None:
    counting = limiter(requests_per_minute=1, tokens_per_minute=1, streams=1)
    async with counting.running("acme", generates=True):
        await charged(counting, "acme", 100)
        async with counting.running("globex", generates=True):
            pass
    assert isinstance(await rejected(counting, "acme"), TokenRateExceeded)


async def test_token_debt_rejects_only_requests_that_generate(limiter: Make, clock: ManualClock) -> None:
    counting = limiter(tokens_per_minute=600)
    assert counting.counts_tokens
    await counting.admit("acme", generates=True)
    await charged(counting, "acme", 900)
    error = await rejected(counting)
    assert isinstance(error, TokenRateExceeded)
    assert error.message == "Rate limit reached on tokens per minute: Limit 600. Please try again in 30.1s."
    await counting.admit("acme", generates=False)
    clock.advance(30.1)
    await counting.admit("acme", generates=True)


async def test_request_rejected_for_lack_of_tokens_is_not_counted(limiter: Make) -> None:
    counting = limiter(tokens_per_minute=600, requests_per_minute=2)
    levels = counting.levels_of("acme")
    await charged(counting, "acme", 900)
    for _ in range(5):
        assert isinstance(await rejected(counting), TokenRateExceeded)
    assert [quota.remaining for quota in levels.quotas()] == [2, 0]


async def test_one_quota_request_covers_requests_tokens_and_a_stream_slot(limiter: Make, counts: Counting) -> None:
    counting = limiter(requests_per_minute=3, tokens_per_minute=600, streams=2)
    async with counting.running("acme", generates=True):
        (asked,) = counts.asked
        assert asked.draws == [Draw("tokens", 0, 1, 600, 600), Draw("requests", 1, 1, 3, 3)]
        assert asked.hold is not None
        (slot,) = asked.hold.ids
        assert asked.hold == Hold((slot,), 30_000, most=2)
    await counting.close()
    assert counts.asked[1:] == [QuotaRequest((), None, [slot])]


async def test_stream_slots_are_released_after_success_and_after_errors(limiter: Make) -> None:
    counting = limiter(streams=2)
    async with counting.running("acme", generates=True), counting.running("acme", generates=False):
        with pytest.raises(RequestRateExceeded, match="responses in progress at once: Limit 2") as caught:
            async with counting.running("acme", generates=True):
                raise AssertionError("there is no slot")
        assert caught.value.facts["retry_after_ms"] == "1000"
    with pytest.raises(ZeroDivisionError):
        async with counting.running("acme", generates=True):
            raise ZeroDivisionError
    async with counting.running("acme", generates=True), counting.running("acme", generates=True):
        pass


async def test_released_stream_slot_is_free_at_once(limiter: Make, counts: Counting) -> None:
    """The release is sent together with the next quota request."""
    counting = limiter(streams=1)
    for _ in range(3):
        async with counting.running("acme", generates=True):
            pass
    assert [len(asked.release) for asked in counts.asked] == [0, 1, 2]


@pytest.mark.parametrize("fault", [asyncio.CancelledError(), ZeroDivisionError()])
async def test_stream_slot_that_may_have_been_taken_is_released(
    limiter: Make, counts: Counting, fault: BaseException
) -> None:
    counting, counts.fault = limiter(streams=1), fault
    with pytest.raises(type(fault)):
        async with counting.running("acme", generates=True):
            raise AssertionError("nobody was admitted")
    counts.fault = None
    async with counting.running("acme", generates=True):
        pass


async def test_without_limits_nothing_is_counted(limiter: Make, counts: Counting) -> None:
    counting = limiter()
    assert not RateLimits().has_any
    assert not counting.counts_tokens
    await charged(counting, "acme", 10**9)
    levels = counting.levels_of("acme")
    for _ in range(10):
        await counting.admit("acme", generates=True)
        async with counting.running("acme", generates=True):
            pass
    await counting.close()
    assert (levels.quotas(), counts.asked) == ([], [])


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "streams"])
def test_any_single_limit_enables_counting(name: str) -> None:
    limits: dict[str, Any] = {name: 1}
    assert RateLimits(**limits).has_any


async def test_levels_show_the_remaining_quota_before_and_after_settling(limiter: Make, clock: ManualClock) -> None:
    counting = limiter(requests_per_minute=60, tokens_per_minute=6_000)
    levels = counting.levels_of("acme")
    await counting.admit("acme", generates=True)
    counting.charge("acme", 7_500)
    for _ in range(2):  # before and after the charge is settled
        requests, tokens = levels.quotas()
        assert (requests.kind, requests.limit, requests.remaining, requests.reset_s) == ("requests", 60, 59, 1.0)
        assert (tokens.kind, tokens.limit, tokens.remaining, tokens.reset_s) == ("tokens", 6_000, 0, 75.0)
        await counting._settling.close()
    clock.advance(74)
    assert [quota.remaining for quota in levels.quotas()] == [60, 5_900]
    clock.advance(1)
    assert [(quota.remaining, quota.reset_s) for quota in levels.quotas()] == [(60, 0), (6_000, 0)]


async def test_levels_are_shared_by_waiting_requests_and_then_forgotten(limiter: Make) -> None:
    counting = limiter(requests_per_minute=60)
    levels: BucketLevels | None = counting.levels_of("acme")
    assert counting.levels_of("acme") is levels
    levels = None
    for number in range(10):
        await counting.admit(f"tenant-{number}", generates=True)
    assert not counting._levels_by_tenant


class CountedSlot:
    def __init__(self) -> None:
        self.times = 0
        self.slot = StreamSlot(self.release)

    def release(self) -> None:
        self.times += 1


async def test_slot_is_released_once_when_its_last_holder_ends() -> None:
    counted, end = CountedSlot(), asyncio.Event()

    async def work() -> None:
        with held_by_task():
            await end.wait()

    with counted.slot.occupy():
        tasks = [asyncio.create_task(work()) for _ in range(2)]
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert counted.times == 0
    end.set()
    await asyncio.gather(*tasks)
    assert counted.times == 1


async def test_slot_held_by_a_request_and_its_own_task_is_released_once() -> None:
    counted = CountedSlot()
    with counted.slot.occupy(), held_by_task():
        pass
    assert counted.times == 1


async def test_task_that_begins_outside_a_request_holds_no_slot() -> None:
    counted = CountedSlot()
    with counted.slot.occupy():
        pass
    with held_by_task():
        assert counted.times == 1


async def test_nested_request_holds_a_slot_of_its_own() -> None:
    outer, inner = CountedSlot(), CountedSlot()
    with outer.slot.occupy():
        with inner.slot.occupy():
            pass
        assert (outer.times, inner.times) == (0, 1)
        with held_by_task():
            pass
        assert (outer.times, inner.times) == (0, 1)
    assert outer.times == 1
