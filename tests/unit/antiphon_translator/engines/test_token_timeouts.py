from __future__ import annotations

import asyncio
import time

import pytest

from antiphon_core.errors import EngineTimeout
from antiphon_core.flow import Flow
from antiphon_translator.engines.token_timeouts import SLEPT_S, TokenTimeouts, time_tokens
from tests.support.waiting import WAIT_MAX_S

LONG_S = 2 * WAIT_MAX_S


async def for_ever() -> None:
    await asyncio.Event().wait()


def limits(*, first_s: float = LONG_S, next_s: float = LONG_S) -> TokenTimeouts:
    return TokenTimeouts("The server", first_s=first_s, next_s=next_s)


async def test_silence_before_the_first_token_is_a_timeout() -> None:
    with pytest.raises(EngineTimeout, match=r"^The server sent no first token within 0\.05 s\.$"):
        async with time_tokens(limits(first_s=0.05), Flow()):
            await for_ever()


async def test_silence_after_a_token_is_a_timeout() -> None:
    with pytest.raises(EngineTimeout, match=r"^The server sent no next token within 0\.05 s\.$"):
        async with time_tokens(limits(next_s=0.05), Flow()) as timer:
            timer.token_came()
            await for_ever()


async def test_each_token_restarts_the_timeout() -> None:
    async with time_tokens(limits(next_s=WAIT_MAX_S), Flow()) as timer:
        timer.token_came()
        timer._last -= 2 * WAIT_MAX_S  # as if it were long ago
        timer.token_came()
        timer._check()
        await asyncio.sleep(0.01)


async def test_timer_check_after_the_limit_raises_the_timeout() -> None:
    with pytest.raises(EngineTimeout):
        async with time_tokens(limits(next_s=WAIT_MAX_S), Flow()) as timer:
            timer.token_came()
            timer._last -= WAIT_MAX_S
            timer._check()
            await for_ever()


async def test_timeout_is_suspended_while_the_flow_is_paused() -> None:
    flow = Flow()
    with pytest.raises(EngineTimeout, match="no next token"):
        async with time_tokens(limits(next_s=0.05), flow) as timer:
            timer.token_came()
            flow.pause(timer)
            await asyncio.sleep(0.1)
            timer.token_came()  # from the read that was in progress
            await asyncio.sleep(0.1)
            flow.resume(timer)
            await for_ever()


async def test_first_token_of_a_paused_flow_starts_no_timeout() -> None:
    flow = Flow()
    flow.pause(flow)
    async with time_tokens(limits(next_s=0.01), flow) as timer:
        timer.token_came()
        await asyncio.sleep(0.05)


async def test_end_within_leaves_the_block_without_an_error() -> None:
    async with time_tokens(limits(), Flow()) as timer:
        timer.end_within(0)
        await for_ever()
    began = time.monotonic()
    async with time_tokens(limits(), Flow()) as timer:
        timer.end_within(WAIT_MAX_S)
        timer.end_within(0.05)
        await for_ever()
    assert time.monotonic() - began < WAIT_MAX_S


async def test_after_end_within_no_token_timeout_is_raised() -> None:
    flow, came_through = Flow(), False
    async with time_tokens(limits(next_s=0.01), flow) as timer:
        timer.token_came()
        timer.end_within(WAIT_MAX_S)
        flow.pause(flow)
        flow.resume(flow)
        await asyncio.sleep(0.05)
        came_through = True
    assert came_through


async def test_cancellation_of_the_task_stays_a_cancellation() -> None:
    async def run() -> None:
        async with time_tokens(limits(), Flow()) as timer:
            timer.end_within(WAIT_MAX_S)
            await for_ever()

    running = asyncio.create_task(run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_timeout_error_raised_in_the_block_is_kept() -> None:
    with pytest.raises(TimeoutError, match="mine"):
        async with time_tokens(limits(), Flow()):
            raise TimeoutError("mine")


async def test_timer_after_a_process_freeze_raises_no_timeout() -> None:
    async with time_tokens(limits(next_s=WAIT_MAX_S), Flow()) as timer:
        timer.token_came()
        timer._last -= 2 * WAIT_MAX_S
        timer._due = timer._time() - 2 * SLEPT_S
        timer._check()
        assert not timer._scope.expired()
        assert timer._scope.when() is None
