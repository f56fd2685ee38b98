from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.redis.joint_calls import TOGETHER_BYTES_MAX, TOGETHER_MAX, JointCalls, ScriptCall
from antiphon_store.backends.redis.scripts import READY


class Server:
    """Answers each call with its first argument, or as `outcomes` says; `is_open` holds the answers back."""

    def __init__(self, outcomes: Sequence[Any] = ()) -> None:
        self.outcomes = outcomes
        self.error: BaseException | None = None
        self.asked: list[list[Any]] = []
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def run(self, calls: Sequence[ScriptCall]) -> Sequence[Any]:
        self.asked.append([call.arguments[0] for call in calls])
        await self.is_open.wait()
        if self.error is not None:
            raise self.error
        return self.outcomes or self.asked[-1]


def call(*arguments: Any) -> ScriptCall:
    return ScriptCall(READY, arguments)


async def outcomes_of(calls: JointCalls, *all_arguments: Any) -> list[Any]:
    return await asyncio.gather(*(calls.run(call(each)) for each in all_arguments), return_exceptions=True)


async def test_calls_of_one_moment_go_out_together_and_each_gets_its_answer() -> None:
    server = Server()
    calls = JointCalls(server.run)
    assert await outcomes_of(calls, 1, 2, 3) == [1, 2, 3]
    assert await calls.run(call(4)) == 4
    assert server.asked == [[1, 2, 3], [4]]


async def test_a_call_that_failed_fails_alone() -> None:
    error = StoreUnavailable("away")
    assert await outcomes_of(JointCalls(Server([1, error, 3]).run), 1, 2, 3) == [1, error, 3]


async def test_an_error_of_the_connection_is_raised_to_every_caller_as_its_own() -> None:
    server = Server()
    server.error = StoreUnavailable("away")
    first, second = await outcomes_of(JointCalls(server.run), 1, 2)
    assert isinstance(first, StoreUnavailable)
    assert isinstance(second, StoreUnavailable)
    assert first is not second


async def test_callers_of_a_run_that_was_stopped_are_cancelled() -> None:
    server = Server()
    server.error = asyncio.CancelledError()
    assert [type(each) for each in await outcomes_of(JointCalls(server.run), 1, 2)] == [asyncio.CancelledError] * 2


async def test_a_call_happens_though_its_caller_has_gone() -> None:
    server = Server()
    server.is_open.clear()
    calls = JointCalls(server.run)
    callers = [asyncio.create_task(calls.run(call(number))) for number in (1, 2)]
    while not server.asked:
        await asyncio.sleep(0)
    callers[0].cancel()
    await asyncio.wait([callers[0]])
    server.is_open.set()
    assert await callers[1] == 2
    assert callers[0].cancelled()


async def test_settling_waits_for_calls_whose_callers_have_gone() -> None:
    server = Server()
    server.is_open.clear()
    calls = JointCalls(server.run)
    caller = asyncio.create_task(calls.run(call(1)))
    await asyncio.sleep(0)
    caller.cancel()
    settling = asyncio.create_task(calls.settle())
    while not server.asked:
        await asyncio.sleep(0)
    assert not settling.done()
    server.is_open.set()
    await settling


@pytest.mark.parametrize(
    ("argument", "together"), [(b"", TOGETHER_MAX), (b"x" * (TOGETHER_BYTES_MAX // 2), 2), (b"x" * 2**21, 1)]
)
async def test_no_more_goes_out_together_than_the_limits_allow(argument: bytes, together: int) -> None:
    server = Server()
    await outcomes_of(JointCalls(server.run), *[argument] * 65)
    assert [len(asked) for asked in server.asked] == [together] * (65 // together) + [1] * bool(65 % together)
