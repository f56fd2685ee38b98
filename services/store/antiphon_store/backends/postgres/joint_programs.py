"""Programs on their way to the database: those that wait share a statement, its round trip and its commit.

By itself a program costs this process a connection of the pool, a statement and several task switches, and the server a
transaction and a flush to the disk. Nothing waits for a timer: while some statements run, the next ones gather.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any, Generic, TypeVar

from antiphon_core.errors import AntiphonError
from antiphon_store.backends.postgres.faults import has_changed_nothing
from antiphon_store.backends.postgres.programs import Call
from antiphon_store.rows.model import Grow, Partition, Program, Put, Set

AT_ONCE_MAX = 4  # statements: one waits for the disk while another is worked on
TOGETHER_MAX = 16  # programs in a statement
TOGETHER_BYTES_MAX = 2**20

_Answer = TypeVar("_Answer")
_Waiting = tuple[Call, asyncio.Future[_Answer], int]  # with the bytes of its payloads


class JointPrograms(Generic[_Answer]):
    """Use inside one event loop. `run_together` answers programs in their order; what it raises belongs to all of them.
    `are_apart`: those that it gets are of different partitions, in order, so that no two lock each other out."""

    def __init__(
        self, run_together: Callable[[Sequence[Call]], Awaitable[Sequence[_Answer]]], *, are_apart: bool = False
    ) -> None:
        self._run_together = run_together
        self._are_apart = are_apart
        self._waiting: list[_Waiting[_Answer]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._is_one_alone = False

    async def run(self, partition: Partition, program: Program) -> _Answer:
        """Returns the answer of the program."""
        if not (self._is_one_alone or self._running or self._waiting):
            return await self._run_alone(Call(partition, program))
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._start)
        answer: asyncio.Future[_Answer] = loop.create_future()
        self._waiting.append((Call(partition, program), answer, size_of(program)))
        return await answer

    async def _run_alone(self, call: Call) -> _Answer:
        """Runs a program that has no company, in the task of its caller."""
        self._is_one_alone = True
        try:
            (answer,) = await self._run_together([call])
        finally:
            self._is_one_alone = False
        return answer

    async def settle(self) -> None:
        """Returns when all that wait are answered. None may be added meanwhile."""
        self._start()
        while self._running:
            await asyncio.wait(self._running)

    def _start(self) -> None:
        while self._waiting and len(self._running) < AT_ONCE_MAX:
            task = asyncio.get_running_loop().create_task(self._answer(self._take()), name="programs of PostgreSQL")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    def _take(self) -> list[_Waiting[_Answer]]:
        """The next that go together."""
        taken: dict[object, _Waiting[_Answer]] = {}
        left = []
        size_bytes = 0
        for place, each in enumerate(self._waiting):
            size_bytes += each[2]
            if len(taken) == TOGETHER_MAX or (taken and size_bytes > TOGETHER_BYTES_MAX):
                left += self._waiting[place:]
                break
            key = each[0].partition if self._are_apart else place
            if key in taken:
                left.append(each)
            else:
                taken[key] = each
        self._waiting = left
        return sorted(taken.values(), key=_partition) if self._are_apart else list(taken.values())

    async def _answer(self, group: Sequence[_Waiting[_Answer]]) -> None:
        try:
            outcomes = await self._outcomes([call for call, _, _ in group])
        except BaseException:
            for _, answer, _ in group:
                answer.cancel()
            raise
        for (_, answer, _), outcome in zip(group, outcomes, strict=True):
            if answer.done():  # its caller gave up
                continue
            if isinstance(outcome, AntiphonError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

    async def _outcomes(self, calls: Sequence[Call]) -> Sequence[_Answer | AntiphonError]:
        try:
            return await self._run_together(calls)
        except AntiphonError as error:
            if len(calls) > 1 and has_changed_nothing(error):  # one of them is to blame
                alone = [await self._outcomes([each]) for each in calls]
                return [outcome for (outcome,) in alone]
            return [copy(error) for _ in calls]  # a copy each: raising one error twice mixes its tracebacks


def size_of(program: Program) -> int:
    """The bytes of its payloads."""
    writes = [each for each in program.changes if isinstance(each, Put | Set | Grow)]
    return sum(len(each.items or b"") + len(each.body or b"") for each in writes)


def _partition(waiting: tuple[Call, Any, int]) -> Partition:
    return waiting[0].partition
