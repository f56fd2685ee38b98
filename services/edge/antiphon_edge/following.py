"""Reading the events of a response that runs, or ran, somewhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon_core import retelling
from antiphon_core.errors import LogNotFound
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record
from antiphon_core.ports.translator import Batch, Final

FIRST_EVENT_S = 10.0
"""How long the log of a response that is said to run may not be there."""
LOOK_AGAIN_S = 0.1


class Followings:
    """Reads streams. One instance serves all of a process."""

    def __init__(self, store: FullStore) -> None:
        self._store = store

    async def stream(
        self, tenant: str, response_id: str, *, after: int | None = None, patience_s: float = FIRST_EVENT_S
    ) -> AsyncGenerator[Batch, None]:
        """The events with a number higher than `after`, to the end of the response; the last batch has its record.

        LogNotFound: there is no log, and none appeared for `patience_s`."""
        async with aclosing(self._batches(tenant, response_id, after, patience_s)) as batches:
            async for batch in batches:
                final = None
                if batch.terminal:
                    final = final_of(await self._store.get(tenant, response_id))
                yield Batch(batch.first_sequence, batch.count, batch.frames, final)

    async def _batches(
        self, tenant: str, response_id: str, after: int | None, patience_s: float
    ) -> AsyncGenerator[EventBatch, None]:
        while True:
            try:
                async with aclosing(self._store.read_events(tenant, response_id, after=after, follow=True)) as batches:
                    async for batch in batches:
                        patience_s = 0  # from now on a log that is not found is over
                        yield batch
                return
            except LogNotFound:
                if patience_s <= 0:
                    raise
                await asyncio.sleep(LOOK_AGAIN_S)
                patience_s -= LOOK_AGAIN_S

    async def told_again(self, record: Record, *, after: int | None = None) -> AsyncGenerator[Batch, None]:
        """A finished response as one batch, from its record."""
        first = 0 if after is None else after + 1
        frames = retelling.frames_of(record)[first:]
        yield Batch(first, len(frames), b"".join(frames), final_of(record))


def final_of(record: Record) -> Final:
    """How a stored response ended."""
    return Final(status=record.status, body=record.body, output_items=record.output_items)
