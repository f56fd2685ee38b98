from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import AntiphonError, InvalidRequest, Timeout, TooLarge, Unavailable, Unimplemented
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX as LARGEST
from antiphon_core.rpc.intake import CallBudget, Intake, IntakeLimits
from antiphon_http2.errors import GrpcError
from antiphon_http2.statuses import INTERNAL, RESOURCE_EXHAUSTED, UNIMPLEMENTED
from tests.support.fake_call import FakeCall

LIMITS = IntakeLimits(bytes_max=3 * LARGEST, caller_bytes_max=2 * LARGEST, caller_calls_max=2)


def test_bytes_beyond_the_share_of_a_caller_or_the_total_are_rejected() -> None:
    budget = CallBudget(LIMITS)
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
    budget = CallBudget(LIMITS)
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
    request = await intake.receive(FakeCall(b"hello").call, "a")
    assert request is not None
    with request as data:
        assert data == b"hello"
        intake.budget.take("a", 2 * LARGEST - len(data))
        with pytest.raises(Unavailable):
            intake.budget.take("a", 1)
        intake.budget.give_back("a", 2 * LARGEST - len(data))
    assert intake.budget.is_unused


async def test_the_end_of_a_request_stream_is_none() -> None:
    assert await Intake(LIMITS).receive(FakeCall().call, "a") is None


async def test_a_request_counts_before_it_has_arrived_and_is_rejected_without_room() -> None:
    intake, slow = Intake(LIMITS), FakeCall(bytes(LARGEST))
    slow.arrived = asyncio.Event()
    receiving = asyncio.ensure_future(intake.receive(slow.call, "a"))
    await asyncio.sleep(0)
    intake.budget.take("a", LARGEST)
    with pytest.raises(Unavailable):
        await intake.receive(FakeCall(b"x").call, "a")
    slow.arrived.set()
    request = await receiving
    assert request is not None
    request.release()
    intake.budget.give_back("a", LARGEST)
    assert intake.budget.is_unused


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_request_that_never_arrives_gives_its_room_back(*, is_cancelled: bool) -> None:
    intake, slow = Intake(LIMITS, timeout_s=60 if is_cancelled else 0), FakeCall(b"x")
    slow.arrived = asyncio.Event()
    receiving = asyncio.ensure_future(intake.receive(slow.call, "a"))
    await asyncio.sleep(0)
    if is_cancelled:
        receiving.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else Timeout):
        await receiving
    assert intake.budget.is_unused


@pytest.mark.parametrize(
    ("status", "error"), [(RESOURCE_EXHAUSTED, TooLarge), (UNIMPLEMENTED, Unimplemented), (INTERNAL, InvalidRequest)]
)
async def test_a_malformed_request_is_the_callers_error(status: int, error: type[AntiphonError]) -> None:
    with pytest.raises(error, match="what was wrong"):
        await Intake(LIMITS).receive(FakeCall(GrpcError(status, "what was wrong")).call, "a")


def test_the_limit_of_one_caller_is_half_of_the_bytes() -> None:
    assert IntakeLimits.of(100).caller_bytes_max == 50
