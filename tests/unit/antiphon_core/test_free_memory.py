from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from dataclasses import dataclass, field

from antiphon_core.clock import ManualClock
from antiphon_core.free_memory import COLLECTING_SHARE_MAX, RETURNED_EVERY_S, FreeMemory
from antiphon_core.process_load import resident_bytes

SIZE_BYTES, PIECE_BYTES = 256 * 2**20, 2_048


class Cycle:
    """Garbage that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self
        self.pieces = [bytes(PIECE_BYTES) for _ in range(SIZE_BYTES // PIECE_BYTES)]


@dataclass
class Steps:
    """The steps of a return of memory, each with its thread. A collection takes `collection_s`."""

    collection_s: float = 0.0
    clock: ManualClock = field(default_factory=ManualClock)
    taken: list[tuple[str, threading.Thread]] = field(default_factory=list)

    @property
    def free(self) -> FreeMemory:
        return FreeMemory(trim=self._trim, collect=self._collect, now_s=self.clock.monotonic)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.taken]

    def _trim(self) -> None:
        self.taken.append(("trim", threading.current_thread()))

    def _collect(self) -> None:
        self.taken.append(("collection", threading.current_thread()))
        self.clock.advance(self.collection_s)


async def test_garbage_and_freed_memory_are_returned_to_the_system() -> None:
    gc.disable()
    try:
        seen = weakref.ref(Cycle())
        before = resident_bytes()
        await FreeMemory().give_back(lambda: False)
        assert seen() is None
        assert resident_bytes() < before - SIZE_BYTES // 2
    finally:
        gc.enable()


async def test_loop_runs_while_memory_is_trimmed() -> None:
    """A trim in the loop's thread would wait for an event that only the loop sets."""
    loop, has_run, results = asyncio.get_running_loop(), threading.Event(), []

    def trim() -> None:
        loop.call_soon_threadsafe(has_run.set)
        results.append(has_run.wait(30))

    await FreeMemory(trim=trim).give_back(lambda: True)
    assert results == [True]


async def test_garbage_is_collected_in_the_loops_thread_if_trimming_is_not_enough() -> None:
    steps = Steps()
    await steps.free.give_back(lambda: True)
    assert steps.names == ["trim"]
    steps = Steps()
    await steps.free.give_back(lambda: False)
    assert steps.names == ["trim", "collection", "trim"]
    assert dict(steps.taken)["collection"] is threading.current_thread()


async def test_memory_is_returned_once_in_five_seconds() -> None:
    steps = Steps()
    free = steps.free
    for pause_s, trims in ((0.0, 1), (RETURNED_EVERY_S - 1, 1), (1, 2)):
        steps.clock.advance(pause_s)
        await free.give_back(lambda: True)
        assert len(steps.taken) == trims


async def test_long_collections_take_a_small_part_of_the_time() -> None:
    steps = Steps(collection_s=0.8)
    free = steps.free
    begun_s = steps.clock.monotonic()
    while steps.clock.monotonic() - begun_s < 1_000:
        await free.give_back(lambda: False)
        steps.clock.advance(1)
    collections = steps.names.count("collection")
    assert 8 <= collections <= 1_000 * COLLECTING_SHARE_MAX / 0.8 + 1
    assert steps.names.count("trim") > 10 * collections


async def test_callers_at_the_same_time_wait_for_the_same_return() -> None:
    steps = Steps()
    free = steps.free
    first = asyncio.create_task(free.give_back(lambda: True))
    others = [asyncio.create_task(free.give_back(lambda: True)) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()  # its client has disconnected
    await asyncio.gather(*others)
    assert steps.names == ["trim"]
    assert first.cancelled()
