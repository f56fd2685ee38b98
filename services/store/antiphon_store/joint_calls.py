"""Batching of concurrent calls to a server: one message, one round trip, one commit for several calls.

Sending a call by itself costs many times the server's work for it: a connection, a write, a read, several task
switches. No call waits for a timer. The calls of one pass of the event loop form a batch, and while the most concurrent
runs are under way, further calls gather for the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Generic, TypeVar

from antiphon_core.errors import AntiphonError, InternalError

_Call = TypeVar("_Call")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Limits:
    """The most calls and bytes of one batch, and the most batches that run at once (None: any number)."""

    together: int
    together_bytes: int
    runs: int | None = None


class JointCalls(Generic[_Call, _Answer]):
    """Runs calls in batches. Use inside one event loop. `run_together` answers the calls of a batch in their order,
    with an error in the place of an answer; an error that it raises is that of every call. `fits`: whether a call may
    join a batch."""

    def __init__(
        self,
        run_together: Callable[[Sequence[_Call]], Awaitable[Sequence[_Answer | Exception]]],
        limits: Limits,
        *,
        size_bytes: Callable[[_Call], int] = lambda _call: 0,
        fits: Callable[[Sequence[_Call], _Call], bool] = lambda _others, _call: True,
    ) -> None:
        self._run_together = run_together
        self._limits = limits
        self._size_bytes = size_bytes
        self._fits = fits
        self._waiting: list[tuple[_Call, asyncio.Future[_Answer]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_one_alone = False
        self._settled = asyncio.Event()

    async def run(self, call: _Call) -> _Answer:
        """Returns the answer of a call. A call that joined a batch happens even if its caller is cancelled. With
        `Limits.runs` a call to an idle server runs in its caller's task, and is cancelled with it."""
        self._settled.clear()
        if self._limits.runs is not None and self.is_idle:
            return await self._run_alone(call)
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._start)
        answer: asyncio.Future[_Answer] = loop.create_future()
        self._waiting.append((call, answer))
        return await answer

    async def settle(self) -> None:
        """Waits until all calls are answered. No call may be added meanwhile."""
        self._start()
        await self._settled.wait()

    @property
    def is_idle(self) -> bool:
        """Whether no call waits or is under way."""
        return not (self._waiting or self._under_way)

    @property
    def waiting_count(self) -> int:
        """The calls that wait for a run."""
        return len(self._waiting)

    async def _run_alone(self, call: _Call) -> _Answer:
        """Runs a call without a batch, in the task of its caller."""
        self._is_one_alone = True
        try:
            (answer,) = await self._outcomes([call])
        finally:
            self._is_one_alone = False
            self._start()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _start(self) -> None:
        while self._waiting and (self._limits.runs is None or self._under_way < self._limits.runs):
            task = asyncio.get_running_loop().create_task(self._answer(self._take()), name="calls that met")
            self._tasks.add(task)
            task.add_done_callback(self._finish_task)
        if self.is_idle:
            self._settled.set()

    @property
    def _under_way(self) -> int:
        return len(self._tasks) + self._is_one_alone

    def _finish_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._start()

    def _take(self) -> Sequence[tuple[_Call, asyncio.Future[_Answer]]]:
        """Takes the calls of the next batch from those that wait."""
        taken: list[tuple[_Call, asyncio.Future[_Answer]]] = []
        left: list[tuple[_Call, asyncio.Future[_Answer]]] = []
        calls: list[_Call] = []
        used_bytes = 0
        for place, each in enumerate(self._waiting):
            used_bytes += self._size_bytes(each[0])
            if len(taken) == self._limits.together or (taken and used_bytes > self._limits.together_bytes):
                left += self._waiting[place:]
                break
            if self._fits(calls, each[0]):
                taken.append(each)
                calls.append(each[0])
            else:
                left.append(each)
        self._waiting = left
        return taken

    async def _outcomes(self, calls: Sequence[_Call]) -> Sequence[_Answer | Exception]:
        """Runs one batch. Raises what `run_together` raises. InternalError: it answers another number of calls."""
        outcomes = await self._run_together(calls)
        if len(outcomes) != len(calls):
            raise InternalError(f"{len(calls)} calls were sent together, and {len(outcomes)} were answered.")
        return outcomes

    async def _answer(self, group: Sequence[tuple[_Call, asyncio.Future[_Answer]]]) -> None:
        outcomes: Sequence[_Answer | Exception]
        try:
            outcomes = await self._outcomes([call for call, _ in group])
        except Exception as error:  # noqa: BLE001 - it is raised in the callers
            # a copy each: raising one error twice mixes its tracebacks
            outcomes = [copy(error) if isinstance(error, AntiphonError) else error for _ in group]
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
