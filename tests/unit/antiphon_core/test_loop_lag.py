from __future__ import annotations

import asyncio
import logging
import time

import pytest

from antiphon_core.loop_lag import PERIOD_S, RECENT_S, WARNING_EVERY_S, WARNING_S, LoopLag
from tests.support.waiting import until


def test_the_maximum_lag_is_kept_and_the_recent_maximum_expires() -> None:
    lag = LoopLag()
    assert (lag.last_s, lag.max_s, lag.recent_max_s) == (0, 0, 0)
    lag.note(0.2, now_s=100.0)
    lag.note(0.1, now_s=101.0)
    assert (lag.last_s, lag.max_s, lag.recent_max_s) == (0.1, 0.2, 0.2)
    lag.note(0.01, now_s=100.0 + RECENT_S + 0.5)
    assert (lag.last_s, lag.max_s, lag.recent_max_s) == (0.01, 0.2, 0.1)


def test_a_long_lag_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    lag = LoopLag()
    lag.note(WARNING_S * 0.99, now_s=0.0)
    assert not caplog.records
    lag.note(0.312, now_s=1.0)
    lag.note(0.5, now_s=WARNING_EVERY_S)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "blocked for 312 ms" in caplog.messages[0]
    lag.note(0.5, now_s=1.0 + WARNING_EVERY_S)
    assert len(caplog.records) == 2


async def test_a_call_that_blocks_the_loop_is_measured() -> None:
    lag = LoopLag()
    async with lag.measure():
        await asyncio.sleep(0)  # the watch begins
        time.sleep(PERIOD_S + 0.08)  # noqa: ASYNC251 - the test measures this block
        await until(lambda: lag.max_s > 0, "the measurement")
    assert lag.max_s >= 0.07


async def test_the_watch_task_ends_with_its_context() -> None:
    before = asyncio.all_tasks()
    async with LoopLag().measure():
        assert len(asyncio.all_tasks()) == len(before) + 1
    assert asyncio.all_tasks() == before
