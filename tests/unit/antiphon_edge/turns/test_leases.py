from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon_core.errors import InternalError, StaleFence, StoreUnavailable, Timeout
from antiphon_core.ports.store import Fence, Lease
from antiphon_edge.turns import leases

LEASE = Lease(Fence("s", 1), "resp", 30_000)


class Store:
    """Answers renewals with what it was given, then with success."""

    def __init__(self, *answers: Exception) -> None:
        self.answers = list(answers)
        self.renewed: list[Fence] = []
        self.heard = asyncio.Event()

    async def renew_session(self, _tenant: str, fence: Fence) -> Lease:
        self.renewed.append(fence)
        if len(self.renewed) == 4:
            self.heard.set()
        if self.answers:
            raise self.answers.pop(0)
        return LEASE


def kept(store: Any, lease: Lease | None = LEASE, every_s: float = 0.001, retry_s: float = 0.001) -> Any:
    return leases.kept(store, "t", lease, every_s=every_s, retry_s=retry_s)


async def test_a_lease_is_renewed_again_and_again_and_not_after_the_block() -> None:
    store = Store()
    async with kept(store):
        await asyncio.wait_for(store.heard.wait(), 5)
    count = len(store.renewed)
    await asyncio.sleep(0.02)
    assert (len(store.renewed), store.renewed[0]) == (count, LEASE.fence)


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), Timeout("late"), InternalError("bug")])
async def test_an_error_of_the_store_is_no_reason_to_stop(error: Exception) -> None:
    store = Store(error, error)
    async with kept(store, every_s=0.001):
        await asyncio.wait_for(store.heard.wait(), 5)


async def test_after_an_error_it_is_tried_again_sooner() -> None:
    store = Store(StoreUnavailable("gone"))
    async with kept(store, every_s=0.01, retry_s=0.0):
        await asyncio.wait_for(store.heard.wait(), 5)
    assert leases.RETRY_EVERY_S < leases.RENEW_EVERY_S


async def test_a_lost_lease_is_left_alone_and_the_block_goes_on() -> None:
    store = Store(StaleFence.of("s", token=1))
    async with kept(store):
        await asyncio.sleep(0.02)
    assert len(store.renewed) == 1


async def test_without_a_lease_nothing_is_asked() -> None:
    store = Store()
    async with kept(store, None):
        await asyncio.sleep(0.005)
    assert store.renewed == []


async def test_the_error_of_the_block_is_the_one_that_leaves() -> None:
    store = Store(InternalError("bug"))
    with pytest.raises(ValueError, match="mine"):
        async with kept(store):
            await asyncio.sleep(0.005)
            raise ValueError("mine")
