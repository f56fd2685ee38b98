"""Measures the queue of background responses periodically, for operators and for autoscalers of workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from antiphon_core.errors import AntiphonError
from antiphon_core.ports.jobs import QueueHead
from antiphon_core.telemetry import metrics, remedies

log = logging.getLogger(__name__)

COUNTED_MAX = 1_000


class QueueWatch:
    """Sets the metrics of the queue from `queue_head`, every `every_s` seconds."""

    def __init__(self, queue_head: Callable[..., Awaitable[QueueHead]], *, every_s: float) -> None:
        self._queue_head = queue_head
        self._every_s = every_s
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look_for_ever(), name="queue watch")

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    async def _look_for_ever(self) -> None:
        while True:
            try:
                head = await self._queue_head(limit=COUNTED_MAX)
                metrics.JOB_QUEUE_DEPTH.of().set(head.due)
                metrics.JOB_QUEUE_AGE.of().set(head.oldest_ms / 1000)
            except AntiphonError as error:
                log.warning("the length of the job queue is not known: %s", error.message)
            except Exception:
                log.exception("the length of the job queue could not be looked up", extra=remedies.REPORT)
            await asyncio.sleep(self._every_s)
