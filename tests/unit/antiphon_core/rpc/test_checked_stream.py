from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from antiphon_core.errors import Unauthenticated
from antiphon_core.rpc.checked_stream import CheckedStream

SOON_S = 0.001


class Answers:
    def __init__(self) -> None:
        self.queue: asyncio.Queue[int | None] = asyncio.Queue()
        self.is_closed = False

    async def read(self) -> AsyncGenerator[int, None]:
        try:
            while (answer := await self.queue.get()) is not None:
                yield answer
        finally:
            self.is_closed = True


class Check:
    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None
        self.was_called = asyncio.Event()

    def __call__(self) -> None:
        self.calls += 1
        self.was_called.set()
        if self.error is not None:
            raise self.error


async def test_stream_of_an_admitted_caller_is_passed_on_to_its_end() -> None:
    answers, check = Answers(), Check()
    for each in (1, 2, None):
        answers.queue.put_nowait(each)
    assert [each async for each in CheckedStream(answers.read(), check, interval_s=SOON_S).read()] == [1, 2]
    assert answers.is_closed
    calls = check.calls
    await asyncio.sleep(5 * SOON_S)
    assert check.calls == calls  # the timer has ended with the stream


async def test_silent_stream_ends_when_its_caller_is_not_admitted() -> None:
    answers, check = Answers(), Check()
    stream = CheckedStream(answers.read(), check, interval_s=SOON_S).read()
    waiting = asyncio.ensure_future(anext(stream))
    await check.was_called.wait()
    assert not waiting.done()
    check.error = Unauthenticated("revoked")
    with pytest.raises(Unauthenticated, match="revoked"):
        await waiting
    assert answers.is_closed


async def test_no_answer_follows_a_check_that_failed_during_a_write() -> None:
    answers, check = Answers(), Check()
    answers.queue.put_nowait(1)
    answers.queue.put_nowait(2)
    async with aclosing(CheckedStream(answers.read(), check, interval_s=SOON_S).read()) as stream:
        assert await anext(stream) == 1
        check.error = Unauthenticated("revoked")
        check.was_called.clear()
        await check.was_called.wait()
        with pytest.raises(Unauthenticated):
            await anext(stream)


async def test_errors_and_cancellation_of_the_stream_are_passed_on() -> None:
    async def broken() -> AsyncGenerator[int, None]:
        raise TimeoutError("its own")
        yield

    with pytest.raises(TimeoutError, match="its own"):
        await anext(CheckedStream(broken(), Check()).read())
    answers = Answers()
    waiting = asyncio.ensure_future(anext(CheckedStream(answers.read(), Check()).read()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert answers.is_closed
