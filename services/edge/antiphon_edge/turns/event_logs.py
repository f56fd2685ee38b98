"""The event log of a turn: written for other readers, and read by them, or to continue the turn.

An append costs the same for one event as for a hundred, so the writer collects events: until the next multiple of
`linger_s` (TurnTiming), until EVENT_LOG_APPEND_BYTES are waiting, or until `flush`, whichever comes first. The
multiples are the same for all writers of a process, so that their appends share an RPC and a transaction of the store.
While the store cannot be reached, no event is lost: events whose append has failed, retries of the store included,
stay at the head of the queue for the append of the next batch, or of `flush`. The turn goes on until
EVENT_LOG_WAITING_BYTES_MAX are waiting; then it is paused.

The reader follows the log of a response that runs, or ran, in another process. The terminal event and a replay contain
the whole response, maybe with log probabilities of every token. They are parsed off the event loop: parsing 2 MB of log
probabilities takes 50 ms.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from time import perf_counter

from antiphon_core import damage, offload
from antiphon_core.errors import AntiphonError, LogNotFound, StoreUnavailable, Timeout, Unavailable
from antiphon_core.flow import Flow
from antiphon_core.fold import Fold
from antiphon_core.jsons import work_bytes
from antiphon_core.limits import (
    APPEND_BYTES_MAX,
    APPEND_EVENTS_MAX,
    EVENT_LOG_APPEND_BYTES,
    EVENT_LOG_WAITING_BYTES_MAX,
)
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch, EventLogs, Step
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Fence, Record
from antiphon_core.ports.translator import Batch, Final
from antiphon_core.retrying import Attempts, Retrier, RetryPolicy
from antiphon_core.telemetry import metrics
from antiphon_edge import replay, stored_content
from antiphon_edge.turns.generation import LogState
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, TurnTiming

LOOK_AGAIN_S = 0.1
"""The pause before a missing log is looked for again."""
Look = Callable[[], Awaitable[bool]]
"""Looks at a turn whose log is silent. Returns whether more events may come."""

_Write = Callable[[Fence | None], Awaitable[int]]
UnderFence = Callable[[_Write], Awaitable[int]]


async def _without_fence(write: _Write) -> int:
    return await write(None)


class EventLogWriter:
    """Writes the event log of one response. Use inside one event loop, and `flush` or `close` at the end."""

    def __init__(
        self,
        logs: EventLogs,
        tenant: str,
        response_id: str,
        *,
        under_fence: UnderFence = _without_fence,
        ids_before: int = 0,
        flow: Flow | None = None,
        timing: TurnTiming = DEFAULT_TIMING,
        on_lost: Callable[[AntiphonError], None] = lambda _error: None,
    ) -> None:
        """`under_fence` runs each append with the fence of a live lease. `ids_before` is the number of token ids that
        the log's checkpoints already have. `flow` is paused while more than EVENT_LOG_WAITING_BYTES_MAX are waiting.
        `on_lost` is called with an error that no retry can mend, such as StaleFence."""
        self._logs = logs
        self._tenant = tenant
        self._response_id = response_id
        self._under_fence = under_fence
        self._ids_before = ids_before
        self._flow = flow or Flow()
        self._timing = timing
        self._on_lost = on_lost
        self._waiting: list[Batch] = []
        self._waiting_bytes = 0
        self._steps: dict[int, Sequence[Step]] = {}
        """The steps of waiting batches, by their first events."""
        self._sends: dict[int, Sequence[str]] = {}
        """The approvals whose calls are sent behind waiting batches, by their first events."""
        self._waiting_since_s = self._appending_since_s = 0.0
        """The arrival times of the first waiting batch and of the first batch of the current append."""
        self._portions: deque[Sequence[Batch]] = deque()
        """The portions to append next. They are split only once: after a timeout, the retry must be the same append."""
        self._error: AntiphonError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[None] | None = None

    def put(self, batch: Batch, steps: Sequence[Step] = (), sends: Sequence[str] = ()) -> None:
        """Queues a batch for the next append, with steps that are durable together with its events, and with the
        approvals whose calls are sent behind it. Does not wait."""
        if steps:
            self._steps[batch.first_sequence] = steps
        if sends:
            self._sends[batch.first_sequence] = sends
        if not self._waiting:
            self._waiting_since_s = perf_counter()
        self._waiting.append(batch)
        self._waiting_bytes += len(batch.frames)
        if self._waiting_bytes > EVENT_LOG_WAITING_BYTES_MAX:
            self._flow.pause(self)
        if self._waiting_bytes >= EVENT_LOG_APPEND_BYTES:
            self._start()
        elif self._timer is None and not self._is_writing:
            self._start_later()

    async def flush(self) -> None:
        """Appends all waiting batches, and waits for the appends. Raises the error of an append that failed; one that
        ran already may have been near the end of its retries, and is tried again."""
        if self._lasting_error is not None:
            raise self._lasting_error
        is_own = not self._is_writing
        while self._waiting or self._portions or self._is_writing:
            self._start()
            assert self._writer is not None  # noqa: S101 - `_start` made it
            await asyncio.shield(self._writer)
            error = self._error if is_own else self._lasting_error
            if error is not None:
                raise error
            is_own = True

    async def close(self) -> None:
        """Stops the writer, and drops the batches that are not appended yet."""
        self._stop_timer()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])

    @property
    def _lasting_error(self) -> AntiphonError | None:
        """The error of the last append, if no retry can mend it."""
        return None if isinstance(self._error, (Unavailable, Timeout)) else self._error

    @property
    def _is_writing(self) -> bool:
        return self._writer is not None and not self._writer.done()

    def _start_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(_next_append_s(loop.time(), self._timing.linger_s), self._start)

    def _start(self) -> None:
        self._stop_timer()
        if not self._is_writing:
            self._writer = asyncio.create_task(self._write(), name=f"event log of {self._response_id}")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _write(self) -> None:
        """Appends the waiting batches. Batches that arrive meanwhile are appended at once if they have
        EVENT_LOG_APPEND_BYTES, else within `linger_s`."""
        self._error = None
        try:
            is_due = True
            while self._portions or (self._waiting and is_due):
                if not self._portions:
                    batches, self._waiting, self._waiting_bytes = self._waiting, [], 0
                    self._appending_since_s = self._waiting_since_s
                    self._flow.resume(self)
                    self._portions.extend(_portions(batches))
                await self._append(self._portions[0])
                self._portions.popleft()
                is_due = self._waiting_bytes >= EVENT_LOG_APPEND_BYTES
        except AntiphonError as error:
            self._error = error
            if not isinstance(error, (Unavailable, Timeout)):
                self._on_lost(error)
            elif self._waiting_bytes > EVENT_LOG_WAITING_BYTES_MAX:
                self._start_later()  # retries: no batch will come and do it, because the flow is paused
        else:
            if self._waiting:
                self._start_later()

    async def _append(self, batches: Sequence[Batch]) -> None:
        append = self._append_of(batches)
        await self._under_fence(lambda fence: self._logs.append_events(self._tenant, append, fence=fence))
        metrics.EVENT_LOG_LAG.of().observe(perf_counter() - self._appending_since_s)
        if append.checkpoint is not None:
            self._ids_before += len(append.checkpoint.token_ids)

    def _append_of(self, batches: Sequence[Batch]) -> EventAppend:
        """Joins the events and the token ids of some batches."""
        count, frames, ids, steps, sends = 0, list[bytes](), list[int](), list[Step](), list[str]()
        for batch in batches:
            count += batch.count
            frames.append(batch.frames)
            ids += batch.token_ids
            steps += self._steps.get(batch.first_sequence, ())
            sends += self._sends.get(batch.first_sequence, ())
        checkpoint = Checkpoint(self._ids_before, tuple(ids)) if ids else None
        first = batches[0].first_sequence
        joined = b"".join(frames)
        return EventAppend(self._response_id, first, count, joined, checkpoint, steps=tuple(steps), sends=tuple(sends))


def _next_append_s(now_s: float, linger_s: float) -> float:
    """The next multiple of `linger_s` on the event loop's clock; now if `linger_s` is 0."""
    return now_s + linger_s - now_s % linger_s if linger_s else now_s


def _portions(batches: Sequence[Batch]) -> Sequence[Sequence[Batch]]:
    """Splits batches into portions that are each small enough for one append."""
    portions: list[list[Batch]] = []
    count = size_bytes = 0
    for batch in batches:
        count += batch.count
        size_bytes += len(batch.frames)
        if not portions or count > APPEND_EVENTS_MAX or size_bytes > APPEND_BYTES_MAX:
            portions.append([])
            count, size_bytes = batch.count, len(batch.frames)
        portions[-1].append(batch)
    return portions


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
        yield Batch(0, len(frames), b"".join(frames), final_of_record(record))

    async def end_of(self, record: Record, first_sequence: int) -> Batch:
        """The end of a finished response as one batch, made from its record, for a reader whose log has no end."""
        size_bytes = work_bytes(record.body) + work_bytes(record.output_items)
        with damage.reading(f"response '{record.id}'"):
            frames = await offload.run(partial(replay.end_of, record, first_sequence), size_bytes=size_bytes)
        return Batch(first_sequence, len(frames), b"".join(frames), final_of_record(record))

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


def final_of_record(record: Record) -> Final:
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
