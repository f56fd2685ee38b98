from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.joint_calls import JointCalls, Limits
from tests.support.waiting import until

AT_ONCE = Limits(together=64, together_bytes=1000)
IN_TURN = Limits(together=3, together_bytes=1000, runs=2)


class Server:
    """Answers each call with itself or with its outcome in `outcomes`, as soon as `is_open` is set."""

    def __init__(self, outcomes: Sequence[Any] = ()) -> None:
        self.outcomes = outcomes
        self.error: BaseException | None = None
        self.asked: list[list[Any]] = []
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def run(self, calls: Sequence[Any]) -> Sequence[Any]:
        asked = list(calls)
        self.asked.append(asked)
        await self.is_open.wait()
        if self.error is not None:
            raise self.error
        return self.outcomes or asked


async def outcomes_of(calls: JointCalls[Any, Any], *all_calls: Any) -> list[Any]:
    return await asyncio.gather(*map(calls.run, all_calls), return_exceptions=True)


async def test_concurrent_calls_are_sent_together_and_each_gets_its_answer() -> None:
    server = Server()
    calls = JointCalls(server.run, AT_ONCE)
    assert await outcomes_of(calls, 1, 2, 3) == [1, 2, 3]
    assert await calls.run(4) == 4
    assert server.asked == [[1, 2, 3], [4]]


async def test_a_call_that_failed_fails_alone() -> None:
    error = StoreUnavailable("away")
    assert await outcomes_of(JointCalls(Server([1, error, 3]).run, AT_ONCE), 1, 2, 3) == [1, error, 3]


async def test_a_connection_error_is_raised_to_each_caller_as_a_separate_instance() -> None:
    server = Server()
    server.error = StoreUnavailable("away")
    first, second = await outcomes_of(JointCalls(server.run, AT_ONCE), 1, 2)
    assert isinstance(first, StoreUnavailable)
    assert isinstance(second, StoreUnavailable)
    assert first is not second


async def test_callers_of_a_run_that_was_stopped_are_cancelled() -> None:
    server = Server()
    server.error = asyncio.CancelledError()
    assert [type(each) for each in await outcomes_of(JointCalls(server.run, AT_ONCE), 1, 2)] == [
        asyncio.CancelledError
    ] * 2


async def test_a_cancelled_caller_does_not_disturb_calls_sent_with_its_own() -> None:
    server = Server()
    server.is_open.clear()
    calls = JointCalls(server.run, AT_ONCE)
    callers = [asyncio.create_task(calls.run(number)) for number in (1, 2)]
    await until(lambda: bool(server.asked), "the server is asked")
    callers[0].cancel()
    await asyncio.wait([callers[0]])
    server.is_open.set()
    assert await callers[1] == 2
    assert callers[0].cancelled()


async def test_settling_waits_for_calls_whose_callers_have_gone() -> None:
    server = Server()
    server.is_open.clear()
    calls = JointCalls(server.run, AT_ONCE)
    caller = asyncio.create_task(calls.run(1))
    await asyncio.sleep(0)
    caller.cancel()
    settling = asyncio.create_task(calls.settle())
    await until(lambda: bool(server.asked), "the server is asked")
    assert not settling.done()
    server.is_open.set()
    await settling


async def test_settling_waits_for_running_and_queued_calls() -> None:
    server = Server()
    server.is_open.clear()
    calls = JointCalls(server.run, Limits(together=3, together_bytes=1000, runs=1))
    asking = asyncio.gather(*map(calls.run, "ab"))
    await until(lambda: calls.waiting_count > 0, "a call waits for its run")
    settling = asyncio.create_task(calls.settle())
    await asyncio.sleep(0)
    assert not settling.done()
    server.is_open.set()
    await settling
    assert await asking == ["a", "b"]
    assert server.asked == [["a"], ["b"]]


@pytest.mark.parametrize(("size_bytes", "together"), [(0, 64), (500, 2), (2000, 1)])
async def test_calls_sent_together_stay_within_count_and_byte_limits(size_bytes: int, together: int) -> None:
    server = Server()
    await outcomes_of(JointCalls(server.run, AT_ONCE, size_bytes=lambda _call: size_bytes), *range(65))
    assert [len(asked) for asked in server.asked] == [together] * (65 // together) + [1] * bool(65 % together)


async def test_calls_that_do_not_fit_go_apart_and_keep_their_order() -> None:
    server = Server()
    calls = JointCalls(server.run, AT_ONCE, fits=lambda others, call: call not in others)
    assert await outcomes_of(calls, *"xaxbax") == list("xaxbax")
    assert server.asked == [list("xab"), list("xa"), ["x"]]


async def test_an_unexpected_error_is_raised_to_every_caller() -> None:
    server = Server()
    server.error = ZeroDivisionError()
    assert [type(each) for each in await outcomes_of(JointCalls(server.run, AT_ONCE), 1, 2)] == [ZeroDivisionError] * 2


async def test_a_single_call_is_sent_at_once_with_limited_runs() -> None:
    server = Server()
    calls = JointCalls(server.run, IN_TURN)
    assert [await calls.run(each) for each in "ab"] == ["a", "b"]
    assert server.asked == [["a"], ["b"]]


async def test_runs_are_limited_and_waiting_calls_are_sent_together() -> None:
    server = Server()
    server.is_open.clear()
    calls = JointCalls(server.run, IN_TURN)
    asking = asyncio.gather(*map(calls.run, "abcdefgh"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert server.asked == [["a"], list("bcd")]
    server.is_open.set()
    assert await asking == list("abcdefgh")
    assert server.asked == [["a"], list("bcd"), list("efg"), ["h"]]
    assert calls.is_idle


@pytest.mark.parametrize("answers", [[1], [1, 2, 3]])
async def test_a_batch_with_another_number_of_answers_fails_all_its_calls(answers: list[int]) -> None:
    async with asyncio.timeout(5):
        found = await outcomes_of(JointCalls(Server(answers).run, AT_ONCE), 1, 2)
    assert [type(each) for each in found] == [InternalError, InternalError]


async def test_a_call_by_itself_with_another_number_of_answers_fails() -> None:
    calls = JointCalls(Server([1, 2]).run, Limits(together=64, together_bytes=1000, runs=1))
    assert [type(each) for each in await outcomes_of(calls, 1)] == [InternalError]
