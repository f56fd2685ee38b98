"""Calls on their way from the event loop to threads, in batches.

All calls of one turn of the loop are handed over at once, at its end. So the threads begin when the loop has nothing
more to do, instead of waiting for the GIL at every SQL statement.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.faults import translate

QUEUE_CALLS_MAX = 10_000  # seconds of work: past that, waiting longer helps nobody

_Answer = TypeVar("_Answer")


class Refusal(NamedTuple):
    """The error of an atom that changed nothing, which ends no transaction."""

    error: Exception


Atom = Callable[[sqlite3.Connection], _Answer | Refusal]


class Call(NamedTuple):
    """An atom, and where its answer is waited for."""

    atom: Atom[Any]
    answer: asyncio.Future[Any]


class Outcome(NamedTuple):
    """The value that an atom returned, or the error that it raised."""

    value: Any = None
    error: Exception | None = None


def failure(error: Exception) -> Outcome:
    return Outcome(error=translate(error) if isinstance(error, sqlite3.Error) else error)


class CallQueue:
    """Between one event loop and threads. Made inside a running loop."""

    def __init__(self, *, batch_max: int, threads: int = 1) -> None:
        self._batch_max = batch_max
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Call] = []
        self._batches: queue.SimpleQueue[list[Call] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._closed = False

    async def run(self, atom: Atom[_Answer]) -> _Answer:
        """Returns or raises as `atom` does. The atom runs even when the caller stops waiting.

        StoreUnavailable: closed or overloaded."""
        self.require_open()
        if self._waiting >= QUEUE_CALLS_MAX:
            raise StoreUnavailable("The store is overloaded; try again later.")
        answer: asyncio.Future[_Answer] = self._loop.create_future()
        if not self._gathered:
            self._loop.call_soon(self._hand_over)
        self._gathered.append(Call(atom, answer))
        self._waiting += 1
        return await answer

    def require_open(self) -> None:
        """StoreUnavailable after `close`."""
        if self._closed:
            raise StoreUnavailable("The store is closed.")

    def close(self) -> None:
        """No more calls: behind those that wait `next_batch` returns None, again and again."""
        self._closed = True
        self._hand_over()
        self._batches.put(None)

    def next_batch(self) -> list[Call] | None:
        """In a thread: waits for calls."""
        batch = self._batches.get()
        if batch is None:
            self._batches.put(None)
        return batch

    def more(self) -> list[Call]:
        """In a thread: further calls that wait already."""
        try:
            batch = self._batches.get_nowait()
        except queue.Empty:
            return []
        if batch is None:
            self._batches.put(None)
        return batch or []

    def deliver(self, batch: Sequence[Call], outcomes: Sequence[Outcome]) -> None:
        """In a thread: wakes the event loop once for the whole batch."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._resolve, batch, outcomes)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        size = min(self._batch_max, -(-len(gathered) // self._threads)) or 1
        for start in range(0, len(gathered), size):
            self._batches.put(gathered[start : start + size])

    def _resolve(self, batch: Sequence[Call], outcomes: Sequence[Outcome]) -> None:
        self._waiting -= len(batch)
        for (_, answer), (value, error) in zip(batch, outcomes, strict=True):
            if answer.done():  # its caller gave up
                continue
            if error is not None:
                answer.set_exception(error)
            elif type(value) is Refusal:
                answer.set_exception(value.error)
            else:
                answer.set_result(value)
