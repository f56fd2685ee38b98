"""Reads the events of a response that runs, or ran, in another process: for a client, or to continue the response.

The terminal event and a replay contain the whole response, maybe with log probabilities of every token. They are parsed
off the event loop: parsing 2 MB of log probabilities takes 50 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial

from antiphon_core import damage, offload
from antiphon_core.errors import AntiphonError, LogNotFound, StoreUnavailable
from antiphon_core.fold import Fold
from antiphon_core.jsons import work_bytes
from antiphon_core.ports.event_logs import EventBatch, EventLogs
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record
from antiphon_core.ports.translator import Batch, Final
from antiphon_core.retrying import Attempts, Retrier, RetryPolicy
from antiphon_edge import replay, stored_content
from antiphon_edge.turns.generation import LogState

LOOK_AGAIN_S = 0.1
"""The pause before a missing log is looked for again."""
Look = Callable[[], Awaitable[bool]]
"""Looks at a turn whose log is silent. Returns whether more events may come."""


class LogFollower:
    """Reads event logs. One instance serves all of a process."""

    def __init__(self, store: FullStore) -> None:
        self._store = store

    async def follow(
        self,
        tenant: str,
        response_id: str,
        look: Look,
        *,
        after: int | None = None,
        silence_s: float,
        retry: RetryPolicy,
    ) -> AsyncGenerator[Batch, None]:
        """Yields the events with a number higher than `after` as the log grows, to the terminal batch, which has a
        `final`.

        When the log is missing, or has no event for `silence_s`, `look` is called. If it returns False, the rest of the
        log can be read with `rest`. A store that is away is waited for as `retry` says once an event was sent;
        before, its error is raised.
        """
        attempts, has_sent = Attempts(Retrier(StoreUnavailable), retry), False
        while True:
            try:
                async with aclosing(self._until_silent(tenant, response_id, after, silence_s)) as batches:
                    async for batch in batches:
                        attempts.note_answer()
                        has_sent, after = True, batch.first_sequence + batch.count - 1
                        yield batch
                        if batch.final is not None:
                            return
                if not await look():
                    return
                attempts.note_answer()
            except AntiphonError as fault:
                if not has_sent or not await attempts.paused_after(fault):
                    raise

    async def rest(self, tenant: str, response_id: str, *, after: int | None) -> AsyncGenerator[Batch, None]:
        """Yields the events with a number higher than `after` that the log has now. LogNotFound."""
        async with aclosing(self._store.read_events(tenant, response_id, after=after)) as batches:
            async for batch in batches:
                yield await _as_sent(response_id, batch)

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
            yield await _as_sent(record.id, batch)

    async def replay(self, record: Record) -> AsyncGenerator[Batch, None]:
        """Yields a finished response as one batch, made from its record. Its events are numbered anew, so a number of
        the original stream does not tell where to resume."""
        size_bytes = work_bytes(record.body) + work_bytes(record.output_items)
        with damage.reading(f"response '{record.id}'"):
            frames = await offload.run(partial(replay.frames_of, record), size_bytes=size_bytes)
        yield Batch(0, len(frames), b"".join(frames), final_of(record))

    async def end_of(self, record: Record, first_sequence: int) -> Batch:
        """The end of a finished response as one batch, made from its record, for a reader whose log has no end."""
        size_bytes = work_bytes(record.body) + work_bytes(record.output_items)
        with damage.reading(f"response '{record.id}'"):
            frames = await offload.run(partial(replay.end_of, record, first_sequence), size_bytes=size_bytes)
        return Batch(first_sequence, len(frames), b"".join(frames), final_of(record))

    async def _read(self, tenant: str, response_id: str, after: int | None) -> list[EventBatch]:
        return [batch async for batch in self._store.read_events(tenant, response_id, after=after)]

    async def _until_silent(
        self, tenant: str, response_id: str, after: int | None, silence_s: float
    ) -> AsyncGenerator[Batch, None]:
        """Yields the events of a log as it grows, until it is missing or none comes for `silence_s`."""
        events = self._store.read_events(tenant, response_id, after=after, follow=True)
        try:
            async with aclosing(events) as batches:
                while True:
                    async with asyncio.timeout(silence_s):
                        batch = await anext(batches)
                    yield await _as_sent(response_id, batch)
        except (StopAsyncIteration, TimeoutError):
            return
        except LogNotFound:
            await asyncio.sleep(LOOK_AGAIN_S)


async def _as_sent(response_id: str, batch: EventBatch) -> Batch:
    size_bytes = work_bytes(batch.frames)
    return await offload.run(partial(stored_content.batch_of, response_id, batch), size_bytes=size_bytes)


def final_of(record: Record) -> Final:
    """The final state of a stored response."""
    return Final(status=record.status, body=record.body, output_items=record.output_items)


async def read_state(logs: EventLogs, tenant: str, response_id: str) -> LogState:
    """Reads the state of a log; an empty one if there is no log. Its events are parsed off the event loop if they are
    large.

    Raises:
        DataDamaged: they are not the events of a response.
    """
    state = await read_unparsed(logs, tenant, response_id)
    await parse(state, response_id)
    return state


async def read_unparsed(logs: EventLogs, tenant: str, response_id: str) -> LogState:
    """Does what `read_state` does, but does not parse the last events yet. DataDamaged."""
    state = LogState()
    with damage.reading(f"the event log of '{response_id}'"), suppress(LogNotFound):
        async with aclosing(logs.read_events(tenant, response_id)) as batches:
            async for batch in batches:
                state.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
                state.is_over = batch.terminal
                for checkpoint in batch.checkpoints:
                    state.put_ids(checkpoint.offset, checkpoint.token_ids)
                for step in batch.steps:
                    state.note_step(step)
    return state


async def parse(state: LogState, response_id: str) -> None:
    """Parses the events of a state that `read_unparsed` has read. DataDamaged."""
    with damage.reading(f"the event log of '{response_id}'"):
        await offload.run(partial(_require_response, state.fold), size_bytes=state.fold.size_bytes)


def _require_response(fold: Fold) -> None:
    """TypeError: the events do not add up to a response."""
    made = fold.response()
    if made and not (type(made) is dict and all(type(each) is dict for each in made.get("output") or ())):
        raise TypeError
