"""The length of the queue of background responses, looked up now and then for operators: autoscalers start workers by
it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Protocol, runtime_checkable

from antiphon_core.errors import AntiphonError
from antiphon_core.ports.jobs import QueueHead
from antiphon_core.telemetry import metrics, remedies

log = logging.getLogger(__name__)

COUNTED_MAX = 1_000


@runtime_checkable
class Queues(Protocol):
    """An engine that can tell how long a queue is."""

    async def queue_head(self, *, limit: int) -> QueueHead:
        """The background responses of all tenants that wait, counted up to `limit`."""


class QueueWatch:
    """Looks every `every_s` seconds, if the engine can tell."""

    def __init__(self, engine: object, *, every_s: float) -> None:
        self._queues = engine if isinstance(engine, Queues) else None
        self._every_s = every_s
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._queues is not None:
            self._looking = asyncio.create_task(self._look_for_ever(self._queues), name="queue watch")

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

    async def _look_for_ever(self, queues: Queues) -> None:
        while True:
            try:
                head = await queues.queue_head(limit=COUNTED_MAX)
                metrics.JOB_QUEUE_DEPTH.of().set(head.due)
                metrics.JOB_QUEUE_AGE.of().set(head.oldest_ms / 1000)
            except AntiphonError as error:
                log.warning("the length of the job queue is not known: %s", error.message)
            except Exception:
                log.exception("the length of the job queue could not be looked up", extra=remedies.REPORT)
            await asyncio.sleep(self._every_s)
