from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon_http2.client.unary import Answer, call_unary
from antiphon_http2.errors import GrpcError


class FakeStreams:
    """A server that answers each call with the same messages. As for a connection, an error of the receiver ends the
    call."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = answers
        self.trailers = {b"note": b"1"}
        self.is_cancelled = False
        self.is_hanging = False

    async def start(self, _path: str, _message: bytes, receive: Any, **_: Any) -> FakeStreams:
        self._receive = receive
        return self

    async def wait_end(self) -> None:
        if self.is_hanging:
            await asyncio.Event().wait()
        for answer in self.answers:
            self._receive([answer])

    def cancel(self) -> None:
        self.is_cancelled = True


async def ask(streams: Any) -> Answer:
    return await call_unary(streams, "/a.B/C", b"")


async def test_a_unary_call_returns_its_message_and_trailers() -> None:
    assert await ask(FakeStreams([b"yes"])) == Answer(b"yes", {b"note": b"1"})


@pytest.mark.parametrize(("answers", "reason"), [([], "without an answer"), ([b"1", b"2"], "several messages")])
async def test_an_answer_that_is_not_one_message_is_an_error(answers: list[bytes], reason: str) -> None:
    with pytest.raises(GrpcError, match=reason):
        await ask(FakeStreams(answers))


async def test_cancelling_the_task_cancels_the_call() -> None:
    streams = FakeStreams([])
    streams.is_hanging = True
    task = asyncio.create_task(ask(streams))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert streams.is_cancelled
