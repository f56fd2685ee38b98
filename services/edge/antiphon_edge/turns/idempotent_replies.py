"""Answers requests under idempotency keys: the turn runs once, and every request with the key is sent its events.

The first request runs the turn; the others follow its event log. When the log is silent, the state of the turn's job
(keyed_jobs.py) tells whether an edge still runs the turn. If none does, this edge takes the turn over and continues it
where its log ends; readers do not notice. If the first request left no job, log or record, the next one runs the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from antiphon_core.errors import AntiphonError, InternalError, LogNotFound, ResponseNotFound, Timeout, Unavailable
from antiphon_core.flow import Flow
from antiphon_core.fold import Fold
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.store import Record
from antiphon_core.ports.translator import Batch, Receive
from antiphon_core.telemetry import metrics
from antiphon_edge.turns import log_state
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.keyed_jobs import KeyedJobs
from antiphon_edge.turns.keyed_turns import KeyedTurns
from antiphon_edge.turns.log_follower import LogFollower
from antiphon_edge.turns.log_state import LogState
from antiphon_edge.turns.stale_keys import StaleKey
from antiphon_edge.turns.store_retry import RetryPolicy, with_retries
from antiphon_edge.turns.terminal_batches import failure
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, TurnTiming

AGAIN_S = 0.1
"""The pause before the request is begun again, and how long a follower waits for a missing log."""
ONE_ATTEMPT = RetryPolicy(for_s=0)
"""For a reader that was sent nothing yet: it gets the error of an unreachable store at once."""
ROUNDS_MAX = 60
"""How often a request is begun while the turn of its key sends no events."""

Begin = Callable[[], Awaitable[AcceptedTurn | RepeatedRequest]]


@dataclass
class _Reader:
    """The receiver of one request, and the events that it was sent."""

    receive: Receive
    flow: Flow
    fold: Fold = field(default_factory=Fold)
    """The response so far, without the terminal batch: parsing that would block the event loop, and nothing follows
    it."""
    next_sequence: int = 0

    @property
    def after(self) -> int | None:
        """The number of the last event that was sent."""
        return self.next_sequence - 1 if self.next_sequence else None

    def take(self, batch: Batch) -> None:
        self.next_sequence = batch.first_sequence + batch.count
        if batch.final is None:
            self.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        self.receive(batch)

    async def take_all(self, stream: AsyncGenerator[Batch, None]) -> None:
        async with aclosing(stream) as batches:
            async for batch in batches:
                await self.flow.wait_until_open()
                self.take(batch)


class IdempotentReplies:
    """Sends the events of keyed turns to their requests. One instance serves all of a process."""

    def __init__(
        self,
        store: FullStore,
        keyed_turns: KeyedTurns,
        keyed_jobs: KeyedJobs,
        *,
        timing: TurnTiming = DEFAULT_TIMING,
    ) -> None:
        self._store = store
        self._keyed_turns = keyed_turns
        self._keyed_jobs = keyed_jobs
        self._follower = LogFollower(store)
        self._timing = timing
        self._silence_s = timing.silence_s

    async def send(self, begin: Begin, receive: Receive, flow: Flow) -> None:
        """Sends all events of the key's turn, whichever edge runs it, and returns after the terminal one.

        `begin` accepts the request. It is called again while the turn that it finds or begins sends no events, up to
        ROUNDS_MAX times. Cancelling does not stop the turn.
        """
        stale_key = StaleKey(self._store, stale_after_s=self._timing.stale_key_s)
        for _ in range(ROUNDS_MAX):
            begun, reader = await begin(), _Reader(receive, flow)
            await self._send_once(begun, reader)
            if reader.next_sequence:
                return
            if isinstance(begun, RepeatedRequest):
                await stale_key.release_if_stale(begun)
            await asyncio.sleep(AGAIN_S)
        raise Unavailable("An earlier request with this idempotency key left no response. Try again later.")

    async def _send_once(self, begun: AcceptedTurn | RepeatedRequest, reader: _Reader) -> None:
        """Sends the turn's events; none if another edge was faster, or the earlier request left nothing."""
        if isinstance(begun, AcceptedTurn):
            held = await self._keyed_turns.hold(begun)
            if held is not None:
                await self._keyed_turns.run(held, reader.take, reader.flow)
        elif begun.record is not None:
            await self._replay(begun.tenant, begun.record, reader)
        else:
            await self._follow_or_fail(begun, reader)

    async def _replay(self, tenant: str, record: Record, reader: _Reader) -> None:
        """Sends the events of a finished response: from its log, or made from its record when the log is gone."""
        metrics.REPLAYS.of("idempotent").add()
        try:
            await reader.take_all(self._follower.resume(tenant, record))
        except LogNotFound:
            await reader.take_all(self._follower.replay(record))

    async def _follow_or_fail(self, repeated: RepeatedRequest, reader: _Reader) -> None:
        """Follows a turn. An error after the first event ends the reader's stream as failed; the turn may go on."""
        metrics.REPLAYS.of("idempotent").add()
        try:
            await self._follow(repeated, reader)
        except AntiphonError as error:
            if not reader.next_sequence:
                raise
            reader.receive(await failure(reader.fold, error))

    async def _follow(self, repeated: RepeatedRequest, reader: _Reader) -> None:
        """Follows a turn, and takes it over if no edge runs it. Sends nothing if there is no log and no job to take."""
        while True:
            if await self._follow_until_silent(repeated, reader):
                return
            policy = ONE_ATTEMPT if reader.after is None else self._timing.look_again
            state = await with_retries(lambda: self._job_state(repeated), policy)
            taken = await self._keyed_jobs.take_over(repeated) if state is JobState.QUEUED else None
            if state is JobState.RUNNING or (state is JobState.QUEUED and taken is None):
                continue  # an edge runs it
            logged = await log_state.read(self._store, repeated.tenant, repeated.response_id)
            if logged.is_over:  # the turn ended after its job was read
                if taken is not None:
                    await self._keyed_jobs.release(taken, is_over=True)
                continue
            if taken is None and not reader.next_sequence:
                if logged.next_sequence:
                    continue  # the turn began after its job was looked for
                return
            await self._send_rest(repeated, reader, logged, taken)
            return

    async def _send_rest(
        self, repeated: RepeatedRequest, reader: _Reader, logged: LogState, taken: AcceptedTurn | None
    ) -> None:
        """Sends the rest of a turn that no other edge runs: from its log, then from the turn if it was taken over."""
        events = self._store.read_events(repeated.tenant, repeated.response_id, after=reader.after)
        with suppress(LogNotFound):
            async with aclosing(events) as batches:
                async for batch in batches:
                    await reader.flow.wait_until_open()
                    reader.take(Batch(batch.first_sequence, batch.count, batch.frames))
        if taken is not None:
            await self._keyed_turns.run(taken, reader.take, reader.flow, state=logged)
        else:  # its log may have expired meanwhile, or its writer gave it up
            reader.take(await self._end_without_log(repeated, reader))

    async def _end_without_log(self, repeated: RepeatedRequest, reader: _Reader) -> Batch:
        """Makes the terminal batch of a turn whose log has none: from its record, which every other reader gets."""
        try:
            record = await self._store.get(repeated.tenant, repeated.response_id)
        except ResponseNotFound:
            return await failure(reader.fold, InternalError("The stream broke off; ask for the response again."))
        return await self._follower.end_of(record, reader.next_sequence)

    async def _follow_until_silent(self, repeated: RepeatedRequest, reader: _Reader) -> bool:
        """Sends the events of a log as it grows. Returns True after the terminal one, False if the log or the store is
        missing, or no event comes for `silence_s`."""
        await reader.flow.wait_until_open()
        loop = asyncio.get_running_loop()
        stream = self._follower.follow(repeated.tenant, repeated.response_id, after=reader.after, missing_for_s=AGAIN_S)
        with suppress(LogNotFound, Unavailable, Timeout, TimeoutError):
            async with aclosing(stream) as batches, asyncio.timeout(self._silence_s) as silence:
                async for batch in batches:
                    reader.take(batch)
                    if batch.final is not None:
                        return True
                    await reader.flow.wait_until_open()
                    silence.reschedule(loop.time() + self._silence_s)
        return False

    async def _job_state(self, repeated: RepeatedRequest) -> JobState | None:
        return await self._keyed_jobs.state(repeated.tenant, repeated.response_id)
