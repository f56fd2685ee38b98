from __future__ import annotations

import asyncio

from antiphon_edge.quotas.stream_slots import StreamSlot, held_by_task


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
