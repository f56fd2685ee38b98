from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from antiphon_core.errors import InternalError, StaleFence, StoreUnavailable, Timeout
from antiphon_edge.turns import lease_keeper
from antiphon_edge.turns.lease_keeper import RenewalPace

FAST = RenewalPace(every_s=0.001, retry_s=0.001)


class Lease:
    """A lease whose renewals raise the given errors, and then succeed."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.renewals = 0
        self.renewed_often = asyncio.Event()
        self.lost: list[StaleFence] = []
        self.is_lost = asyncio.Event()

    async def renew(self) -> None:
        self.renewals += 1
        if self.renewals == 4:
            self.renewed_often.set()
        if self.errors:
            raise self.errors.pop(0)

    def on_lost(self, error: StaleFence) -> None:
        self.lost.append(error)
        self.is_lost.set()

    def kept(self, pace: RenewalPace = FAST) -> AbstractAsyncContextManager[None]:
        return lease_keeper.kept("session s", self.renew, pace, self.on_lost)


async def test_a_lease_is_renewed_until_the_block_is_left() -> None:
    lease = Lease()
    async with lease.kept(), asyncio.timeout(30):
        await lease.renewed_often.wait()
    count = lease.renewals
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert lease.renewals == count


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), Timeout("late"), InternalError("bug")])
async def test_an_error_of_the_store_does_not_lose_the_lease(error: Exception) -> None:
    lease = Lease(error, error)
    async with lease.kept(), asyncio.timeout(30):
        await lease.renewed_often.wait()
    assert lease.lost == []


async def test_lease_is_renewed_sooner_after_an_error() -> None:
    lease = Lease()
    lease.errors = [StoreUnavailable("gone")] * 3
    async with lease.kept(RenewalPace(every_s=0.001, retry_s=0)), asyncio.timeout(30):
        await lease.renewed_often.wait()


async def test_a_lost_lease_is_reported_once_and_not_renewed_again() -> None:
    stale = StaleFence.of("s", token=1)
    lease = Lease(stale)
    async with lease.kept(), asyncio.timeout(30):
        await lease.is_lost.wait()
        for _ in range(10):
            await asyncio.sleep(0.001)
    assert (lease.lost, lease.renewals) == ([stale], 1)


async def test_error_of_the_block_is_raised() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with Lease(InternalError("bug")).kept():
            await asyncio.sleep(0.005)
            raise ValueError("mine")


@pytest.mark.parametrize(("now_s", "expected"), [(10.0, 2.0), (11.5, 0.5), (11.9, 2.1), (12.0, 2.0)])
def test_all_leases_of_a_pace_are_renewed_at_its_multiples(now_s: float, expected: float) -> None:
    assert lease_keeper._until_next_s(now_s, 2.0) == pytest.approx(expected)


def test_pace_of_zero_seconds_has_no_pause() -> None:
    assert lease_keeper._until_next_s(10.5, 0) == 0
