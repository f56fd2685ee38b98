"""Polls the load of a model's endpoints twice a second, while generations come.

Without polls a translator takes the others to have sent as much as it has itself. One poll of an endpoint runs at a
time. A poll that fails says nothing: the endpoint's last report counts for LOAD_KEPT_S (endpoint_cache.py), no longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError
from antiphon_translator.engines.replica_metrics import ReplicaMetrics

log = logging.getLogger(__name__)

POLL_S = 0.5
"""With heavy cold traffic the median first token takes 259 ms with a snapshot of each 0.25 s, 635 ms with one of each
second, and 1,002 ms with one of each five (simulated)."""
IDLE_S = 30.0
"""Seconds after the last generation in which the polls end: a server that nobody uses is not asked."""

Fetch = Callable[[str], Awaitable[ReplicaMetrics]]
"""Reads the metrics of an endpoint. Raises an AntiphonError when it cannot."""


class LoadPolls:
    """The polls of one model's endpoints. Use inside one event loop."""

    def __init__(
        self, names: Iterable[str], fetch: Fetch, note: Callable[[str, ReplicaMetrics | None], None], clock: Clock
    ) -> None:
        """`note` is called with the result of each poll; None is one that failed."""
        self._names = tuple(names)
        self._fetch = fetch
        self._note = note
        self._clock = clock
        self._woken_s = 0.0
        self._rounds: asyncio.Task[None] | None = None
        self._polls: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Keeps the polls running for IDLE_S."""
        self._woken_s = self._clock.monotonic()
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._poll_in_rounds())

    async def close(self) -> None:
        tasks = [task for task in (self._rounds, *self._polls.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _poll_in_rounds(self) -> None:
        while self._clock.monotonic() - self._woken_s < IDLE_S:
            for name in self._names:
                if name not in self._polls:
                    self._start(name)
            await asyncio.sleep(POLL_S)

    def _start(self, name: str) -> None:
        poll = self._polls[name] = asyncio.create_task(self._poll(name))
        poll.add_done_callback(lambda _: self._polls.pop(name))

    async def _poll(self, name: str) -> None:
        try:
            self._note(name, await self._fetch(name))
        except AntiphonError as error:
            log.debug("%s: its load is not known: %s", name, error.message)
            self._note(name, None)
