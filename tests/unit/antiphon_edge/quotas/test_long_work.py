from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from antiphon_core.errors import RequestRateExceeded
from antiphon_edge.quotas import long_work
from antiphon_edge.quotas.long_work import ACTIVE_S, LINE, SHORT_BYTES_MAX, LongWork
from tests.support.waiting import WAIT_MAX_S

LONG = SHORT_BYTES_MAX + 1
BUDGET = 2 * LONG


class Held:
    """Pieces of work that begin one after another, in tasks of their own."""

    def __init__(self, work: LongWork) -> None:
        self._work = work
        self.began: list[str] = []
        self.give_back: dict[str, Callable[[], None]] = {}
        self._end = asyncio.Event()

    async def hold(self, name: str, size: int = LONG, tenant: str = "t") -> None:
        async with self._work.reserve(tenant, size) as give_back:
            self.began.append(name)
            if give_back is not None:  # short work holds nothing
                self.give_back[name] = give_back
            await self._end.wait()

    async def begin(self, name: str, size: int = LONG, tenant: str = "t") -> asyncio.Task[None]:
        task = asyncio.create_task(self.hold(name, size, tenant))
        await settled()
        return task

    async def end(self, *tasks: asyncio.Task[None]) -> None:
        self._end.set()
        async with asyncio.timeout(WAIT_MAX_S):
            await asyncio.gather(*tasks, return_exceptions=True)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("budget", "sizes", "begun"),
    [
        (BUDGET, [LONG, LONG, LONG], 2),
        (BUDGET, [LONG * 9, LONG], 1),
        (BUDGET, [LONG, LONG * 9, LONG], 1),  # in the order in which they came
        (BUDGET, [SHORT_BYTES_MAX] * 9, 9),
        (0, [LONG * 9] * 9, 9),
    ],
    ids=["within the budget", "larger than the budget", "in order", "short", "no limit"],
)
async def test_long_work_of_a_tenant_begins_within_its_budget(budget: int, sizes: list[int], begun: int) -> None:
    held = Held(LongWork(budget))
    tasks = [await held.begin(str(number), size) for number, size in enumerate(sizes)]
    assert held.began == [str(number) for number in range(begun)]
    other = await held.begin("other", LONG * 9, "other")
    assert held.began[-1] == "other"
    await held.end(*tasks, other)
    assert len(held.began) == len(sizes) + 1


async def test_room_that_is_given_back_goes_to_the_first_in_line_once() -> None:
    held = Held(LongWork(LONG))
    tasks = [await held.begin(name) for name in "abcd"]
    tasks[1].cancel()
    await settled()
    for _ in range(2):
        held.give_back["a"]()
    await settled()
    assert held.began == ["a", "c"]
    await held.end(*tasks)
    assert held.began == ["a", "c", "d"]


async def test_work_that_is_cancelled_as_its_turn_comes_gives_the_room_back() -> None:
    held = Held(LongWork(LONG))
    tasks = [await held.begin(name) for name in "abc"]
    held.give_back["a"]()
    tasks[1].cancel()  # its turn has come, but it has not run yet
    await settled()
    assert held.began == ["a", "c"]
    await held.end(*tasks)


async def test_work_behind_a_full_line_is_rejected_with_the_setting() -> None:
    held = Held(LongWork(LONG))
    tasks = [await held.begin(str(number)) for number in range(LINE + 1)]
    with pytest.raises(RequestRateExceeded, match="edge.long_bytes_per_tenant") as raised:
        await held.hold("one too many")
    assert raised.value.facts["retry_after_ms"]
    await held.end(*tasks)
    assert len(held.began) == LINE + 1


async def test_work_that_waits_too_long_is_rejected_with_the_setting() -> None:
    held = Held(LongWork(LONG, wait_max_s=0.0))
    first = await held.begin("first")
    with pytest.raises(RequestRateExceeded, match="edge.long_bytes_per_tenant"):
        await held.hold("second")
    await held.end(first)


@pytest.mark.parametrize(("other_at_s", "rests"), [(0.5, True), (None, False), (-ACTIVE_S, False)])
async def test_long_work_rests_as_long_as_it_took_while_another_tenant_is_active(
    other_at_s: float | None, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [-ACTIVE_S]  # far behind the clock of the loop, so that the end of the rest comes at once
    monkeypatch.setattr(long_work, "_now_s", lambda: now_s[0])
    work = LongWork(LONG)
    held = Held(work)
    if other_at_s is not None:
        now_s[0] = other_at_s
        work.note_request("other")
    now_s[0] = max(now_s[0], 0.0)
    work.note_request("t")
    tasks = [await held.begin(name) for name in "ab"]
    now_s[0] += 0.25
    held.give_back["a"]()
    share = work._shares["t"]
    assert bool(share.rests_until_s) is rests
    assert (share.held_bytes == 0) is rests
    async with asyncio.timeout(WAIT_MAX_S):
        while held.began != ["a", "b"]:
            await asyncio.sleep(0)
    await held.end(*tasks)


async def test_reads_wait_once_those_before_were_long() -> None:
    work, began = LongWork(LONG), list[int]()

    async def read(size: int) -> None:
        async with work.reading("t") as note_bytes:
            began.append(size)
            note_bytes(size)

    async with AsyncExitStack() as held:
        give_back = await held.enter_async_context(work.reserve("t", LONG))
        await read(4 * LONG)
        waiting = asyncio.create_task(read(1))
        await settled()
        assert began == [4 * LONG]
        assert give_back is not None
        give_back()
        await waiting
    for _ in range(3):
        await read(1)
    assert work._read_bytes == {}
    assert work._shares == {}
