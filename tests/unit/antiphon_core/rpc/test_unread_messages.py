from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from antiphon_core.rpc.unread_messages import UNREAD_BYTES_MAX, UnreadMessages
from antiphon_http2.errors import GrpcError
from antiphon_http2.statuses import INTERNAL


class FakeCall:
    """A call that the test ends."""

    def __init__(self) -> None:
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_cancelled = False

    async def wait_end(self) -> None:
        await asyncio.shield(self.end)

    def cancel(self) -> None:
        self.is_cancelled = True


async def test_messages_are_read_in_order_and_the_error_behind_them() -> None:
    unread, call = UnreadMessages(), FakeCall()
    seen: list[bytes] = []

    async def read() -> None:
        fake: Any = call
        async for message in unread.read(fake):
            seen.append(message)  # noqa: PERF401 - the messages before the error are kept

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    unread.receive([b"1"])
    await asyncio.sleep(0)
    unread.receive([b"2", b"3"])
    call.end.set_exception(GrpcError(INTERNAL, "broken"))
    with pytest.raises(GrpcError, match="broken"):
        await reading
    assert seen == [b"1", b"2", b"3"]


async def test_a_slow_reader_pauses_its_call_until_it_has_read_everything() -> None:
    unread, call = UnreadMessages(), FakeCall()
    fake: Any = call
    unread.receive([b"x" * UNREAD_BYTES_MAX])
    assert not unread.flow.is_paused
    unread.receive([b"y"])
    assert unread.flow.is_paused
    async with aclosing(unread.read(fake)) as messages:
        await anext(messages)
        assert unread.flow.is_paused
        assert await anext(messages) == b"y"
        assert not unread.flow.is_paused
    assert call.is_cancelled
