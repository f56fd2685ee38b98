from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.free_memory import FreeMemory
from antiphon_core.loop_lag import LoopLag
from antiphon_core.process_load import ProcessLoad, available_bytes, bytes_for_turns, resident_bytes


def test_memory_is_measured_twice_a_second() -> None:
    clock, used = ManualClock(), [50]
    load = ProcessLoad(memory_limit_bytes=100, used_bytes=lambda: used[0], now_s=clock.monotonic)
    assert load.memory_share == 0.5
    used[0] = 90
    assert load.memory_share == 0.5
    clock.advance(0.5)
    assert load.memory_share == 0.9


@pytest.mark.parametrize(
    ("used_bytes", "behind_trim", "behind_collection", "is_short", "steps"),
    [
        (80, 80, 80, False, ""),
        (95, 60, 60, False, "trim"),
        (95, 94, 60, False, "trim collection trim"),
        (95, 94, 93, True, "trim collection trim"),
    ],
)
async def test_free_memory_is_returned_before_a_process_counts_as_short_of_it(
    used_bytes: int, behind_trim: int, behind_collection: int, is_short: bool, steps: str
) -> None:
    clock, used, taken = ManualClock(), [used_bytes], []

    def step(name: str, behind: int) -> None:
        taken.append(name)
        used[0] = min(used[0], behind)

    free = FreeMemory(
        trim=lambda: step("trim", behind_trim),
        collect=lambda: step("collection", behind_collection),
        now_s=clock.monotonic,
    )
    load = ProcessLoad(memory_limit_bytes=100, used_bytes=lambda: used[0], now_s=clock.monotonic, free=free)
    assert await load.uses_more_than(0.9) is is_short
    assert " ".join(taken) == steps


def test_the_lag_of_a_process_is_the_standing_lag_of_its_loop() -> None:
    lag = LoopLag()
    load = ProcessLoad(lag=lag)
    for number, lag_s in enumerate([0.7, 0.6, 0.8]):
        lag.note(lag_s, now_s=number)
    assert load.lag_s == 0.6


@pytest.mark.parametrize(("text", "expected"), [("1048576\n", 1_048_576), ("max\n", None), (None, None)])
def test_the_limit_of_a_container_counts_where_there_is_one(
    tmp_path: Path, text: str | None, expected: int | None
) -> None:
    path = tmp_path / "memory.max"
    if text is not None:
        path.write_text(text)
    machine = available_bytes(())
    assert available_bytes((path,)) == (expected or machine)


def test_turns_may_hold_a_tenth_of_the_memory() -> None:
    assert (bytes_for_turns(1_000), bytes_for_turns()) == (100, available_bytes() // 10)


def test_resident_memory_is_below_available_memory() -> None:
    assert 2**20 < resident_bytes() < available_bytes()
