"""Calls of frequent scripts: those of one pass of the event loop go out together on one connection.

A call by itself costs this process a connection of the pool, a write, a read and several task switches: many times what
the script costs the server. The writers of event logs append at the same moments, and leases are renewed at the same
moments, so that one pipeline carries them all. Nothing waits for a timer or for an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from antiphon_core.errors import AntiphonError
from antiphon_store.backends.redis.scripts import Script

TOGETHER_MAX = 64
TOGETHER_BYTES_MAX = 2**20  # a pipeline is written, and answered, within one timeout


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script, with the number of its keys, the keys and the arguments behind it."""

    script: Script
    arguments: tuple[Any, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of its long arguments: texts are short."""
        return sum(len(each) for each in self.arguments if isinstance(each, bytes))


Run = Callable[[Sequence[ScriptCall]], Awaitable[Sequence[Any]]]


class JointCalls:
    """Use inside one event loop. `run` answers calls in their order, an error for one that failed; what it raises,
    AntiphonError only, belongs to all of them."""

    def __init__(self, run: Run) -> None:
        self._run_together = run
        self._waiting: list[tuple[ScriptCall, asyncio.Future[Any]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, call: ScriptCall) -> Any:
        """Returns the script's answer. The call happens even if its caller stops waiting."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._start)
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((call, answer))
        return await answer

    async def settle(self) -> None:
        """Returns when every call is answered, also those whose callers have gone. No call may be added meanwhile."""
        if self._waiting:
            self._start()
        if self._running:
            await asyncio.wait(self._running)

    def _start(self) -> None:
        waiting, self._waiting = self._waiting, []
        for group in _groups(waiting):
            task = asyncio.get_running_loop().create_task(self._answer(group), name="calls of Redis scripts")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _answer(self, group: Sequence[tuple[ScriptCall, asyncio.Future[Any]]]) -> None:
        try:
            outcomes = await self._run_together([call for call, _ in group])
        except AntiphonError as error:
            outcomes = [copy(error) for _ in group]  # a copy each: raising one error twice mixes its tracebacks
        except BaseException:
            for _, answer in group:
                answer.cancel()
            raise
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            if answer.done():  # its caller gave up
                continue
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)


def _groups(
    waiting: Sequence[tuple[ScriptCall, asyncio.Future[Any]]],
) -> Iterator[Sequence[tuple[ScriptCall, asyncio.Future[Any]]]]:
    """In their order, no more at once than the limits allow."""
    taken: list[tuple[ScriptCall, asyncio.Future[Any]]] = []
    size_bytes = 0
    for each in waiting:
        size_bytes += each[0].size_bytes
        if taken and (len(taken) == TOGETHER_MAX or size_bytes > TOGETHER_BYTES_MAX):
            yield taken
            taken, size_bytes = [], each[0].size_bytes
        taken.append(each)
    if taken:
        yield taken
