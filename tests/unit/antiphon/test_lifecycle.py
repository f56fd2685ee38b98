from __future__ import annotations

import asyncio
import gc
import os
import signal
from dataclasses import dataclass, field

import pytest

from antiphon.lifecycle import building, run


@dataclass
class Recorder:
    """A part that records its starts and stops in `diary`."""

    name: str
    diary: list[str]
    fault: Exception | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)
    hangs: bool = False
    stop_fault: Exception | None = None

    async def start(self) -> None:
        if self.fault:
            raise self.fault
        self.started.set()
        if self.hangs:
            await asyncio.Event().wait()
        self.diary.append(f"start {self.name}")

    async def stop(self) -> None:
        self.diary.append(f"stop {self.name}")
        if self.stop_fault:
            raise self.stop_fault


def signal_self() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_parts_start_in_order_and_stop_in_the_opposite_order() -> None:
    diary: list[str] = []
    parts = [Recorder("a", diary), Recorder("b", diary)]
    await asyncio.wait_for(run(parts, on_started=signal_self), 30)
    assert diary == ["start a", "start b", "stop b", "stop a"]


async def test_a_part_that_fails_to_start_stops_those_before_it() -> None:
    diary: list[str] = []
    parts = [Recorder("a", diary), Recorder("b", diary, fault=OSError("port taken"))]
    with pytest.raises(OSError, match="port taken"):
        await run(parts, on_started=lambda: diary.append("up"))
    assert diary == ["start a", "stop a"]


async def test_a_signal_during_the_start_stops_the_started_parts() -> None:
    diary: list[str] = []
    slow = Recorder("b", diary, hangs=True)
    running = asyncio.create_task(run([Recorder("a", diary), slow], on_started=lambda: diary.append("up")))
    await asyncio.wait_for(slow.started.wait(), 30)
    signal_self()
    await asyncio.wait_for(running, 30)
    assert diary == ["start a", "stop a"]


def test_objects_made_while_building_are_frozen_for_the_garbage_collector() -> None:
    frozen_before = gc.get_freeze_count()
    with building():
        assert not gc.isenabled()
        made = [[number] for number in range(1_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= frozen_before + len(made)


def test_the_garbage_collector_runs_again_when_building_fails() -> None:
    with pytest.raises(OSError, match="no room"), building():
        raise OSError("no room")
    assert gc.isenabled()


async def test_the_lag_of_the_loop_is_measured_while_the_parts_run() -> None:
    def is_measured() -> bool:
        return any(task.get_name() == "loop lag" for task in asyncio.all_tasks())

    seen: list[bool] = []

    def look() -> None:
        seen.append(is_measured())
        signal_self()

    def on_started() -> None:
        asyncio.get_running_loop().call_later(0.01, look)

    await asyncio.wait_for(run([], on_started=on_started), 30)
    assert seen == [True]
    assert not is_measured()


async def test_a_part_that_fails_to_stop_keeps_no_other_from_stopping() -> None:
    diary: list[str] = []
    parts = [Recorder("a", diary), Recorder("b", diary, stop_fault=OSError("disk full")), Recorder("c", diary)]
    with pytest.raises(OSError, match="disk full"):
        await asyncio.wait_for(run(parts, on_started=signal_self), 30)
    assert diary[3:] == ["stop c", "stop b", "stop a"]
