"""The calls of the last minutes by their ids: each runs once, however often it is asked for.

A caller whose connection broke attaches to its call again: it gets the progress from then on, and the result. An ended
call is remembered for KEPT_S, within limits of number and bytes. The ledger is of this process: a caller that is not
sure to reach the same process attaches only (`attach`), and never begins a call for the second time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from antiphon_core.clock import Clock
from antiphon_core.ports.tools import CallError, OnProgress, Outcome, Progress, ToolCall, ToolResult
from antiphon_tools.mcp.faults import Code

KEPT_S = 600.0
ENDED_ITEMS_MAX = 10_000
ENDED_BYTES_MAX = 64 * 2**20

Run = Callable[[OnProgress], Coroutine[Any, Any, ToolResult]]
_Key = tuple[str, str]
_NOT_BEGUN = frozenset({Outcome.NOT_SENT, Outcome.REFUSED})


@dataclass(slots=True)
class Entry:
    """One call, and those that listen to its progress."""

    digest: bytes
    task: asyncio.Future[ToolResult]
    listeners: list[OnProgress] = field(default_factory=list)

    async def result(self, on_progress: OnProgress) -> ToolResult:
        """Waits for the end of the call. Cancelling ends the wait, and not the call."""
        self.listeners.append(on_progress)
        try:
            return await asyncio.shield(self.task)
        finally:
            self.listeners.remove(on_progress)


class Ledger:
    """For one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[_Key, Entry] = {}
        self._ended: OrderedDict[_Key, tuple[float, int]] = OrderedDict()
        self._ended_bytes = 0

    def begin(self, tenant: str, call: ToolCall, run: Run) -> Entry:
        """The entry of a call, which begins now unless it has begun. If the id is that of another call, which may have
        run, the outcome is unknown."""
        self._forget_old()
        digest = _digest(call)
        entry = self._entries.get((tenant, call.id))
        if entry is None:
            return self._start((tenant, call.id), digest, run)
        if entry.digest != digest:
            return _taken(digest)
        return entry

    def find(self, tenant: str, call_id: str) -> Entry | None:
        """The entry of a call that has begun; None if none is known here."""
        return self._entries.get((tenant, call_id))

    async def close(self) -> None:
        """Cancels the calls that run, and waits for their ends."""
        running = [entry.task for entry in self._entries.values() if not entry.task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    @property
    def running(self) -> int:
        return len(self._entries) - len(self._ended)

    def _start(self, key: _Key, digest: bytes, run: Run) -> Entry:
        listeners: list[OnProgress] = []

        def tell(progress: Progress) -> None:
            for listener in tuple(listeners):
                listener(progress)

        task = asyncio.create_task(run(tell), name="tool call")
        entry = self._entries[key] = Entry(digest, task, listeners)
        task.add_done_callback(lambda task: self._end(key, task))
        return entry

    def _end(self, key: _Key, task: asyncio.Task[ToolResult]) -> None:
        """Remembers the end of a call. The id of a call that was not sent may be used again."""
        if task.cancelled() or task.exception() is not None or task.result().outcome in _NOT_BEGUN:
            del self._entries[key]
            return
        size = _size(task.result())
        self._ended[key] = (self._clock.monotonic(), size)
        self._ended_bytes += size
        self._forget_old()

    def _forget_old(self) -> None:
        oldest_s = self._clock.monotonic() - KEPT_S
        while self._ended:
            key, (ended_s, size) = next(iter(self._ended.items()))
            if ended_s >= oldest_s and len(self._ended) <= ENDED_ITEMS_MAX and self._ended_bytes <= ENDED_BYTES_MAX:
                return
            del self._ended[key], self._entries[key]
            self._ended_bytes -= size


def _digest(call: ToolCall) -> bytes:
    """The content of a call, without its credentials, which may be refreshed, and without its time."""
    parts = (call.server.label, call.server.url, call.tool, call.digest)
    return hashlib.sha256(repr(parts).encode() + call.arguments).digest()


def _taken(digest: bytes) -> Entry:
    """The entry of a call that does not begin because its id is another one's."""
    result: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
    error = CallError(Code.UNKNOWN_OUTCOME, "A call with this id was made with other content.")
    result.set_result(ToolResult(Outcome.UNKNOWN, error=error))
    return Entry(digest, result)


def _size(result: ToolResult) -> int:
    return 500 + len(result.text) + len(result.structured) + sum(map(len, result.images))
