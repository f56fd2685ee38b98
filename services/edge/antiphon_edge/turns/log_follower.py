"""Reads the events of a response that runs, or ran, in another process.

The terminal event and a replay contain the whole response, maybe with log probabilities of every token. They are parsed
off the event loop: parsing 2 MB of log probabilities takes 50 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from antiphon_core import events, offload, replay, response
from antiphon_core.errors import LogNotFound, Timeout, Unavailable
from antiphon_core.jsons import work_bytes
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record, Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.turns.store_retry import RetryPolicy

FIRST_EVENT_S = 10.0
"""How long the log of a running response may be missing."""
STORE_BACK = RetryPolicy(for_s=300.0)
"""Retries of an unreachable store in the middle of a stream; its reader is sent comments meanwhile. A stream that is
cut off when the retries end can be resumed."""
LOOK_AGAIN_S = 0.1
"""The pause between two reads of a log that is missing."""


class LogFollower:
    """Reads event logs. One instance serves all of a process."""

    def __init__(self, store: FullStore) -> None:
        self._store = store

    async def follow(
        self, tenant: str, response_id: str, *, after: int | None = None, missing_for_s: float = FIRST_EVENT_S
    ) -> AsyncGenerator[Batch, None]:
        """Yields the events with a number higher than `after` as the log grows. The last batch has a `final`.

        LogNotFound: there is no log, and none appeared for `missing_for_s`.
        """
        async with aclosing(self._batches(tenant, response_id, after, missing_for_s)) as batches:
            async for batch in batches:
                yield await _as_sent(batch)

    async def resume(self, tenant: str, record: Record, *, after: int | None = None) -> AsyncGenerator[Batch, None]:
        """Yields the events of a finished response with a number higher than `after`, once it has read all of them: a
        log that its writer gave up has no terminal event, and following it would never end.

        LogNotFound: there is no log, or it has no terminal event.
        """
        later = await self._read(tenant, record.id, after)
        last = later or (await self._read(tenant, record.id, None) if after is not None else later)
        if not last or not last[-1].terminal:
            raise LogNotFound.of(record.id)
        for batch in later:
            yield await _as_sent(batch)

    async def replay(self, record: Record) -> AsyncGenerator[Batch, None]:
        """Yields a finished response as one batch, made from its record. Its events are numbered anew, so a number of
        the original stream does not tell where to resume."""
        size_bytes = work_bytes(record.body) + work_bytes(record.output_items)
        frames = await offload.run(partial(replay.frames_of, record), size_bytes=size_bytes)
        yield Batch(0, len(frames), b"".join(frames), final_of(record))

    async def end_of(self, record: Record, first_sequence: int) -> Batch:
        """The end of a finished response as one batch, made from its record, for a reader whose log has no end."""
        size_bytes = work_bytes(record.body) + work_bytes(record.output_items)
        frames = await offload.run(partial(replay.end_of, record, first_sequence), size_bytes=size_bytes)
        return Batch(first_sequence, len(frames), b"".join(frames), final_of(record))

    async def _read(self, tenant: str, response_id: str, after: int | None) -> list[EventBatch]:
        return [batch async for batch in self._store.read_events(tenant, response_id, after=after)]

    async def _batches(
        self, tenant: str, response_id: str, after: int | None, missing_for_s: float
    ) -> AsyncGenerator[EventBatch, None]:
        """Yields the batches of the log, and reads the log again after an error that may pass."""
        has_begun, now = False, asyncio.get_running_loop().time
        until_s, pauses_s = now() + missing_for_s, STORE_BACK.pauses_s()
        is_away = False
        while True:
            try:
                async with aclosing(self._store.read_events(tenant, response_id, after=after, follow=True)) as batches:
                    async for batch in batches:
                        has_begun, after = True, batch.first_sequence + batch.count - 1
                        is_away = False
                        yield batch
                return
            except (LogNotFound, Unavailable, Timeout) as error:
                # Before the first batch only a missing log is retried. Later only an unreachable store is: a log
                # that is gone by then has expired.
                if isinstance(error, LogNotFound) is has_begun:
                    raise
                if has_begun and not is_away:
                    is_away, until_s, pauses_s = True, now() + STORE_BACK.for_s, STORE_BACK.pauses_s()
                if now() >= until_s:
                    raise
                await asyncio.sleep(next(pauses_s) if has_begun else LOOK_AGAIN_S)


async def _as_sent(batch: EventBatch) -> Batch:
    final = None
    if batch.terminal:
        final = await offload.run(partial(_final_in, batch.frames), size_bytes=work_bytes(batch.frames))
    return Batch(batch.first_sequence, batch.count, batch.frames, final)


def final_of(record: Record) -> Final:
    """The final state of a stored response."""
    return Final(status=record.status, body=record.body, output_items=record.output_items)


def _final_in(frames: bytes) -> Final:
    """The final state of a response, from its terminal event, which is the last of these."""
    last = frames[:-2].rpartition(b"\n\n")[2]
    ended = events.decode(last)[0]["response"]
    body, output_items = response.split(ended)
    return Final(status=Status(ended["status"]), body=body, output_items=output_items)
