from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from antiphon_core.errors import InternalError, SessionLost, StaleFence, StoreUnavailable, Timeout
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
        await asyncio.wait_for(store.heard.wait(), 30)
    count = len(store.renewed)
    await asyncio.sleep(0.02)
    assert (len(store.renewed), store.renewed[0]) == (count, LEASE.fence)


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), Timeout("late"), InternalError("bug")])
async def test_an_error_of_the_store_is_no_reason_to_stop(error: Exception) -> None:
    store = Store(error, error)
    async with kept(store, every_s=0.001):
        await asyncio.wait_for(store.heard.wait(), 30)


async def test_after_an_error_it_is_tried_again_sooner() -> None:
    store = Store(StoreUnavailable("gone"))
    async with kept(store, every_s=0.01, retry_s=0.0):
        await asyncio.wait_for(store.heard.wait(), 30)
    assert leases.RETRY_EVERY_S < leases.RENEW_EVERY_S


class Stream:
    """Numbers, as far as it is let; it notes its end."""

    def __init__(self, *, holds_at: int | None = None, error: Exception | None = None) -> None:
        self.closed = asyncio.Event()
        self._holds_at = holds_at
        self._error = error

    async def tell(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(3):
                if number == self._holds_at:
                    if self._error is not None:
                        raise self._error
                    await asyncio.Event().wait()
                yield number
        finally:
            self.closed.set()


async def test_a_lost_lease_ends_what_is_waited_for_and_is_not_asked_for_again() -> None:
    store, stream = Store(StaleFence.of("s", token=1)), Stream(holds_at=2)
    told: list[int] = []
    with pytest.raises(SessionLost):
        async with kept(store) as lease:
            async for number in lease.while_kept(stream.tell()):
                told += [number]
    assert (told, stream.closed.is_set(), len(store.renewed)) == ([0, 1], True, 1)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_lease_that_is_lost_while_nobody_waits_ends_it_at_the_next_step() -> None:
    store, stream = Store(StaleFence.of("s", token=1)), Stream()
    async with kept(store) as lease, aclosing(lease.while_kept(stream.tell())) as numbers:
        assert await anext(numbers) == 0
        while not store.renewed:
            await asyncio.sleep(0.001)
        with pytest.raises(SessionLost):
            await anext(numbers)
    assert stream.closed.is_set()


async def test_a_kept_lease_lets_everything_pass() -> None:
    async with kept(Store(StoreUnavailable("gone"))) as lease:
        assert [number async for number in lease.while_kept(Stream().tell())] == [0, 1, 2]
        async with aclosing(lease.while_kept(Stream(holds_at=1, error=TimeoutError("mine")).tell())) as numbers:
            await anext(numbers)
            with pytest.raises(TimeoutError, match="mine"):
                await anext(numbers)


async def test_who_waits_can_be_cancelled_by_others() -> None:
    stream = Stream(holds_at=0)

    async def read() -> None:
        async with kept(Store()) as lease:
            async for _ in lease.while_kept(stream.tell()):
                pass

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.005)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert stream.closed.is_set()


async def test_without_a_lease_nothing_is_asked() -> None:
    store, stream = Store(), Stream().tell()
    async with kept(store, None) as none:
        await asyncio.sleep(0.005)
        assert none.while_kept(stream) is stream  # and nothing is paid
    assert store.renewed == []


async def test_the_error_of_the_block_is_the_one_that_leaves() -> None:
    store = Store(InternalError("bug"))
    with pytest.raises(ValueError, match="mine"):
        async with kept(store):
            await asyncio.sleep(0.005)
            raise ValueError("mine")
