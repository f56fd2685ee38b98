from __future__ import annotations

import asyncio

from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.jobs import QueueHead
from antiphon_core.telemetry import metrics
from antiphon_store.background.queue_watch import COUNTED_MAX, QueueWatch


class QueueStore:
    """A store that answers with one queue head after the other, and then no more."""

    def __init__(self, *heads: QueueHead | Exception) -> None:
        self._heads = list(heads)
        self.asked: list[int] = []
        self.is_empty = asyncio.Event()

    async def queue_head(self, *, limit: int) -> QueueHead:
        self.asked.append(limit)
        if not self._heads:
            self.is_empty.set()
            await asyncio.Event().wait()
        head = self._heads.pop(0)
        if isinstance(head, Exception):
            raise head
        return head


async def test_queue_metrics_are_updated_after_errors_of_the_store() -> None:
    store = QueueStore(StoreUnavailable("away"), ZeroDivisionError(), QueueHead(3, 2_500))
    watch = QueueWatch(store.queue_head, every_s=0)
    watch.start()
    await store.is_empty.wait()
    await watch.stop()
    assert (metrics.JOB_QUEUE_DEPTH.of().value, metrics.JOB_QUEUE_AGE.of().value) == (3, 2.5)
    assert store.asked[0] == COUNTED_MAX
