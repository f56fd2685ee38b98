from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, RequestRateExceeded, TokenRateExceeded
from antiphon_edge.door.rate_limits import LocalRateLimiter, RateLimits


def limiter(clock: ManualClock | None = None, **limits: int) -> LocalRateLimiter:
    return LocalRateLimiter(RateLimits(**limits), clock or ManualClock())


async def refused(counting: LocalRateLimiter, tenant: str = "acme", *, generates: bool = True) -> AntiphonError:
    with pytest.raises(AntiphonError) as caught:
        await counting.admit(tenant, generates=generates)
    return caught.value


async def test_requests_are_counted_and_the_refusal_says_when_to_come_back() -> None:
    clock = ManualClock()
    counting = limiter(clock, requests_per_minute=3)
    for _ in range(3):
        await counting.admit("acme", generates=False)
    error = await refused(counting)
    assert isinstance(error, RequestRateExceeded)
    assert error.message == "Rate limit reached on requests per minute: Limit 3. Please try again in 20s."
    assert error.facts["retry_after_ms"] == "20000"
    clock.advance(19.9)
    assert (await refused(counting)).facts["retry_after_ms"] == "100"
    clock.advance(0.1)
    await counting.admit("acme", generates=False)
    await refused(counting)


async def test_one_tenant_does_not_use_up_what_is_anothers() -> None:
    counting = limiter(requests_per_minute=1, tokens_per_minute=1, streams=1)
    await counting.admit("acme", generates=True)
    await counting.charge("acme", 100)
    async with counting.running("acme"):
        await counting.admit("globex", generates=True)
        async with counting.running("globex"):
            pass
    await refused(counting, "acme")


async def test_tokens_are_a_debt_that_only_generation_waits_for() -> None:
    clock = ManualClock()
    counting = limiter(clock, tokens_per_minute=600)
    assert counting.counts_tokens
    await counting.admit("acme", generates=True)
    await counting.charge("acme", 900)
    error = await refused(counting)
    assert isinstance(error, TokenRateExceeded)
    assert error.message == "Rate limit reached on tokens per minute: Limit 600. Please try again in 30.1s."
    await counting.admit("acme", generates=False)
    clock.advance(30.1)
    await counting.admit("acme", generates=True)


async def test_a_request_that_waits_for_tokens_is_not_counted() -> None:
    counting = limiter(tokens_per_minute=600, requests_per_minute=2)
    await counting.charge("acme", 900)
    for _ in range(5):
        assert isinstance(await refused(counting), TokenRateExceeded)
    assert [quota.remaining for quota in counting.quotas("acme")] == [2, 0]


async def test_places_are_given_back_whatever_happens() -> None:
    counting = limiter(streams=2)
    async with counting.running("acme"), counting.running("acme"):
        with pytest.raises(RequestRateExceeded, match="responses in progress at once: Limit 2") as caught:
            async with counting.running("acme"):
                pass
        assert caught.value.facts["retry_after_ms"] == "1000"
    with pytest.raises(ZeroDivisionError):
        async with counting.running("acme"):
            raise ZeroDivisionError
    async with counting.running("acme"), counting.running("acme"):
        pass


async def test_no_limit_means_none() -> None:
    counting = limiter()
    assert not RateLimits().any
    assert not counting.counts_tokens
    await counting.charge("acme", 10**9)
    for _ in range(1_000):
        await counting.admit("acme", generates=True)
    assert counting.quotas("acme") == []


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "streams"])
def test_any_limit_is_one(name: str) -> None:
    limits: dict[str, Any] = {name: 1}
    assert RateLimits(**limits).any


async def test_each_of_several_replicas_enforces_its_part() -> None:
    replicas = [limiter(requests_per_minute=7, streams=3, replicas=2) for _ in range(2)]
    through = 0
    for counting in replicas:
        assert counting.quotas("acme")[0].limit == 3
        for _ in range(10):
            with suppress(RequestRateExceeded):
                await counting.admit("acme", generates=False)
                through += 1
        assert "Limit 7" in (await refused(counting)).message
        async with counting.running("acme"), counting.running("acme"):
            with pytest.raises(RequestRateExceeded):
                async with counting.running("acme"):
                    pass
    assert through == 6


async def test_a_share_of_less_than_one_request_is_one_now_and_then() -> None:
    clock = ManualClock()
    counting = limiter(clock, requests_per_minute=1, replicas=3)
    await counting.admit("acme", generates=False)
    wait_ms = int((await refused(counting)).facts["retry_after_ms"])
    assert 180_000 <= wait_ms <= 180_001
    clock.advance(wait_ms / 1000)
    await counting.admit("acme", generates=False)


async def test_the_state_of_the_limits() -> None:
    clock = ManualClock()
    counting = limiter(clock, requests_per_minute=60, tokens_per_minute=6_000)
    await counting.admit("acme", generates=True)
    await counting.charge("acme", 7_500)
    requests, tokens = counting.quotas("acme")
    assert (requests.kind, requests.limit, requests.remaining, requests.reset_s) == ("requests", 60, 59, 1.0)
    assert (tokens.kind, tokens.limit, tokens.remaining, tokens.reset_s) == ("tokens", 6_000, 0, 75.0)
    clock.advance(75)
    assert [quota.remaining for quota in counting.quotas("acme")] == [60, 6_000]


async def test_names_of_tenants_do_not_pile_up_and_debts_are_not_forgotten() -> None:
    clock = ManualClock()
    counting = limiter(clock, requests_per_minute=60, tokens_per_minute=60, streams=1)
    await counting.charge("debtor", 1_000)
    async with counting.running("runner"):
        for number in range(1_000):
            await counting.admit(f"tenant-{number}", generates=True)
        clock.advance(61)
        await counting.admit("late", generates=True)
        assert set(counting._tenants) == {"debtor", "runner", "late"}
        await refused(counting, "debtor")
        with pytest.raises(RequestRateExceeded):
            async with counting.running("runner"):
                pass
