from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from antiphon_core.errors import Timeout, Unavailable
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX as LARGEST
from antiphon_core.rpc.intake import Budget, Intake, IntakeLimits
from tests.support.waiting import until

LIMITS = IntakeLimits(bytes_max=3 * LARGEST, caller_bytes_max=2 * LARGEST, caller_calls_max=2)


class Context:
    """A call whose request arrives when the test says so."""

    def __init__(self, data: Any = None) -> None:
        self.arrived: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if data is not None:
            self.arrived.set_result(data)

    async def read(self) -> Any:
        return await self.arrived


def receive(intake: Intake, context: Context, caller: str = "a") -> Any:
    made: Any = context
    return intake.receive(made, caller)


def test_bytes_beyond_the_share_of_a_caller_or_the_total_are_rejected() -> None:
    budget = Budget(LIMITS)
    budget.take("a", LARGEST)
    budget.take("a", LARGEST)
    with pytest.raises(Unavailable):
        budget.take("a", 1)
    budget.take("b", LARGEST)
    with pytest.raises(Unavailable):
        budget.take("c", 1)
    budget.give_back("b", LARGEST)
    budget.take("c", 1)


def test_calls_of_a_caller_are_counted_until_they_end() -> None:
    budget = Budget(LIMITS)
    with budget.call("a"), budget.call("a"):
        with pytest.raises(Unavailable), budget.call("a"):
            pass
        with budget.call("b"):
            pass
    with budget.call("a"):
        pass
    assert budget.is_unused


async def test_a_request_counts_with_its_own_size_until_it_is_released() -> None:
    intake = Intake(LIMITS)
    with await receive(intake, Context(b"hello")) as data:
        assert data == b"hello"
        intake.budget.take("a", 2 * LARGEST - len(data))
        with pytest.raises(Unavailable):
            intake.budget.take("a", 1)
        intake.budget.give_back("a", 2 * LARGEST - len(data))
    assert intake.budget.is_unused


async def test_the_end_of_a_request_stream_is_none() -> None:
    assert await receive(Intake(LIMITS), Context(grpc.aio.EOF)) is None


async def test_a_slow_request_counts_as_the_largest_and_is_refused_without_room() -> None:
    intake = Intake(LIMITS, grace_s=0)
    slow = [asyncio.ensure_future(receive(intake, Context())) for _ in range(3)]
    with pytest.raises(Unavailable):
        await slow[2]
    assert not slow[0].done()
    for task in slow[:2]:
        task.cancel()
    await asyncio.wait(slow[:2])
    assert intake.budget.is_unused


async def test_a_slow_request_that_arrives_is_received() -> None:
    intake, context = Intake(LIMITS, grace_s=0), Context()
    receiving = asyncio.ensure_future(receive(intake, context))
    await until(lambda: not intake.budget.is_unused, "the request's share of the budget")
    context.arrived.set_result(b"late")
    with await receiving as data:
        assert data == b"late"
    assert intake.budget.is_unused


async def test_requests_that_arrived_while_the_loop_stood_still_are_received() -> None:
    """The grace of all three requests ended before the event loop could read one."""
    intake, loop = Intake(LIMITS, grace_s=1e-4), asyncio.get_running_loop()
    contexts = [Context() for _ in range(3)]
    receiving = [asyncio.ensure_future(receive(intake, context)) for context in contexts]
    await asyncio.sleep(0)
    for context in contexts:
        loop.call_soon(context.arrived.set_result, b"small")
    stands_until_s = loop.time() + 1e-3
    while loop.time() < stands_until_s:
        pass
    for request in await asyncio.gather(*receiving):
        request.release()
    assert intake.budget.is_unused


async def test_a_request_that_never_arrives_times_out() -> None:
    intake = Intake(LIMITS, grace_s=0, timeout_s=0)
    with pytest.raises(Timeout):
        await receive(intake, Context())
    assert intake.budget.is_unused


async def test_cancelling_a_receive_raises_cancelled_error() -> None:
    receiving = asyncio.ensure_future(receive(Intake(LIMITS), Context()))
    await asyncio.sleep(0)
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving


def test_the_limit_of_one_caller_is_half_of_the_bytes() -> None:
    assert IntakeLimits.of(100).caller_bytes_max == 50
