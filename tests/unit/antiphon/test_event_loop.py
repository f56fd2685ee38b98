from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator

import pytest

from antiphon import event_loop


async def loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_programs_run_on_uvloop_where_it_is_installed() -> None:
    assert event_loop.run(loop_module()) == "uvloop"


def test_programs_run_on_asyncio_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.run(loop_module()).startswith("asyncio.")


def test_the_error_of_the_program_is_raised() -> None:
    async def fail() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        event_loop.run(fail())


async def switch_interval_s() -> float:
    return sys.getswitchinterval()


def test_programs_run_with_a_short_gil_switch_interval() -> None:
    before = sys.getswitchinterval()
    try:
        assert event_loop.run(switch_interval_s()) == pytest.approx(event_loop.SWITCH_INTERVAL_S)
    finally:
        sys.setswitchinterval(before)


@pytest.fixture
def thresholds() -> Iterator[None]:
    """Restores the thresholds of the garbage collector."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
def test_the_garbage_collector_passes_over_everything_that_exists() -> None:
    before = gc.get_freeze_count()
    kept: list[object] = [[] for _ in range(100)]
    event_loop.spare_garbage_collection()
    assert gc.get_freeze_count() >= before + len(kept)


@pytest.mark.usefixtures("thresholds")
def test_the_objects_of_a_few_turns_start_no_collection() -> None:
    gc.set_threshold(700, 10, 10)
    event_loop.spare_garbage_collection()
    before = [generation["collections"] for generation in gc.get_stats()]
    kept: list[object] = [[] for _ in range(5_000)]
    assert [generation["collections"] for generation in gc.get_stats()] == before
    assert kept
