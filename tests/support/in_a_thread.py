"""Runs asynchronous contexts for blocking tests, each in an event loop in its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def in_a_thread(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enters an asynchronous context in an event loop in its own thread, where it stays open until the block is
    left."""
    entered: Future[tuple[T, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def hold() -> None:
        leave = asyncio.Event()
        async with context as value:
            entered.set_result((value, asyncio.get_running_loop(), leave))
            await leave.wait()

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(asyncio.run, hold())
        either: set[Future[Any]] = {entered, held}
        wait(either, return_when=FIRST_COMPLETED)
        if held.done():
            held.result()  # raises the error of entering the context
        value, loop, leave = entered.result()
        try:
            yield value
        finally:
            loop.call_soon_threadsafe(leave.set)
            held.result()
