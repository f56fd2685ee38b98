"""Turns under idempotency keys: the turn runs once, and every request with its key is sent its events.

The first request holds the turn's job and runs the turn, in a task of its own that continues when the client
disconnects. The others follow the event log, and take the turn over when no edge runs it (durable_turns.py); readers
do not notice. If the first request left no job, log or record, the next one runs the turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from antiphon_core.errors import AntiphonError, InternalError, LogNotFound, ResponseNotFound, Unavailable
from antiphon_core.flow import Flow
from antiphon_core.fold import Fold
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record
from antiphon_core.ports.translator import Batch, Receive
from antiphon_core.telemetry import metrics, remedies
from antiphon_edge.quotas import rate_limits
from antiphon_edge.quotas.response_readers import ResponseReaders
from antiphon_edge.turns import event_logs
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.caller_policy import CallerPolicy
from antiphon_edge.turns.cleanup import Cleanup
from antiphon_edge.turns.durable_turns import StaleKey, Step, TurnJobs, next_step
from antiphon_edge.turns.event_logs import LogFollower
from antiphon_edge.turns.generation import LogState
from antiphon_edge.turns.turn_finisher import failure
from antiphon_edge.turns.turn_runner import TurnRun, TurnRunner, discard
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, TurnTiming
from antiphon_edge.turns.turn_watch import Delivery

log = logging.getLogger(__name__)

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
    has_ended: bool = False

    @property
    def after(self) -> int | None:
        """The number of the last event that was sent."""
        return self.next_sequence - 1 if self.next_sequence else None

    def take(self, batch: Batch) -> None:
        self.next_sequence = batch.first_sequence + batch.count
        if batch.final is None:
            self.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        self.has_ended = batch.final is not None
        self.receive(batch)

    async def take_all(self, stream: AsyncGenerator[Batch, None]) -> None:
        async with aclosing(stream) as batches:
            async for batch in batches:
                await self.flow.wait_until_open()
                self.take(batch)


class KeyedTurns:
    """Runs keyed turns, and sends their events to their requests. One instance serves all of a process."""

    def __init__(
        self,
        store: FullStore,
        runner: TurnRunner,
        jobs: TurnJobs,
        *,
        policy: CallerPolicy,
        cleanup: Cleanup,
        timing: TurnTiming = DEFAULT_TIMING,
        readers: ResponseReaders | None = None,
    ) -> None:
        self._readers = readers or ResponseReaders()
        self._store = store
        self._runner = runner
        self._jobs = jobs
        self._policy = policy
        self._cleanup = cleanup
        self._timing = timing
        self._follower = LogFollower(store)
        self._running: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """The number of turns that run here."""
        return len(self._running)

    async def stop(self) -> None:
        """Cancels the turns that still run. The next edge that gets a request with the same key continues the turn."""
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def send(self, begin: Begin, receive: Receive, flow: Flow) -> bool:
        """Sends all events of the key's turn, whichever edge runs it. After the terminal one it returns whether this
        request began the turn.

        `begin` accepts the request. It is called again while the turn that it finds or begins sends no events, up to
        `begins_max` times (TurnTiming). Cancelling does not stop the turn.
        """
        stale_key = StaleKey(self._store, stale_after_s=self._timing.stale_key_s)
        for _ in range(self._timing.begins_max):
            begun = await begin()
            if isinstance(begun, AcceptedTurn):
                held = await self.enqueue(begun)
                if held is not None:
                    await self.run(held, receive, flow)
                    return True
            elif await self._send_repeated(begun, _Reader(receive, flow)):
                return False
            else:
                await stale_key.release_if_stale(begun)
            await asyncio.sleep(self._timing.begin_again_s)
        raise Unavailable("An earlier request with this idempotency key left no response. Try again later.")

    # ---- The first request ----

    async def enqueue(self, accepted: AcceptedTurn) -> AcceptedTurn | None:
        """Queues and claims the turn's job. If the caller is cancelled meanwhile, gives back the job, the key and the
        session lease."""
        enqueueing = self._cleanup.start(self._jobs.enqueue(accepted))
        try:
            return await asyncio.shield(enqueueing)
        except BaseException:
            if_it_fails = f"response {accepted.response_id} keeps its lease and key until they expire"
            self._cleanup.schedule(self._give_back(accepted, enqueueing), if_it_fails)
            raise

    async def _give_back(self, accepted: AcceptedTurn, enqueueing: asyncio.Task[AcceptedTurn | None]) -> None:
        """Waits for `enqueueing`, and gives the turn back unless another edge has its job."""
        with suppress(Exception):
            await asyncio.wait([enqueueing])
        held = accepted if enqueueing.exception() is not None else enqueueing.result()
        if held is not None:
            await self._policy.give_back(held)

    async def run(self, accepted: AcceptedTurn, receive: Receive, flow: Flow) -> None:
        """Runs a turn whose job this edge holds, and returns when the turn has ended.

        Cancelling only detaches the receiver: the turn goes on, and keeps its stream slot. Unavailable: this edge is
        shutting down, and leaves the turn to the next one.
        """
        receiver = _DetachableReceiver(receive)
        run = TurnRun(accepted, receiver.receive, delivery=Delivery.KEYED)
        if accepted.is_from_job:
            metrics.TAKEOVERS.of("edge").add()
        running = asyncio.create_task(self._run(run), name=f"turn {accepted.response_id}")
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        try:
            with flow.listening(pause=lambda: run.flow.pause(receiver), resume=lambda: run.flow.resume(receiver)):
                await asyncio.wait([running])
        finally:
            receiver.detach()
            run.flow.resume(receiver)
        if running.cancelled():
            raise Unavailable.at_shutdown("Send the request again to continue the response.")
        running.result()

    async def _run(self, run: TurnRun) -> None:
        with rate_limits.held_by_task():
            await self._runner.run(run, self._policy)

    # ---- Repeated requests ----

    async def _send_repeated(self, repeated: RepeatedRequest, reader: _Reader) -> bool:
        """Sends the events of the turn of an earlier request. Returns whether there were any."""
        metrics.REPLAYS.of("idempotent").add()
        with self._readers.one_more(repeated.tenant, repeated.response_id):
            if repeated.record is not None:
                await self._replay(repeated.tenant, repeated.record, reader)
            else:
                await self._follow_or_fail(repeated, reader)
        return reader.next_sequence > 0

    async def _replay(self, tenant: str, record: Record, reader: _Reader) -> None:
        """Sends the events of a finished response: from its log, or made from its record when the log is gone."""
        try:
            await reader.take_all(self._follower.resume(tenant, record))
        except LogNotFound:
            await reader.take_all(self._follower.replay(record))

    async def _follow_or_fail(self, repeated: RepeatedRequest, reader: _Reader) -> None:
        """Follows a turn. An error after the first event ends the reader's stream as failed; the turn may go on."""
        try:
            await self._follow(repeated, reader)
        except AntiphonError as error:
            if not reader.next_sequence:
                raise
            await event_logs.parse(LogState(reader.fold), repeated.response_id)
            reader.receive(await failure(reader.fold, error))

    async def _follow(self, repeated: RepeatedRequest, reader: _Reader) -> None:
        """Follows a turn, and takes it over if no edge runs it. Sends nothing if there is no log and no job to take."""
        tenant, response_id = repeated.tenant, repeated.response_id
        taken: AcceptedTurn | None = None
        has_job = False

        async def look() -> bool:
            nonlocal taken, has_job
            step, job = await next_step(self._store, Delivery.KEYED, tenant, response_id)
            has_job = job is not None
            if step is Step.TAKE_OVER:
                taken = await self._jobs.take_over(repeated)
                return taken is None
            return step is Step.WAIT

        follow = self._follower.follow(
            tenant, response_id, look, silence_s=self._timing.silence_s, retry=self._timing.follow_retry
        )
        await reader.take_all(follow)
        if reader.has_ended or not (has_job or reader.next_sequence):
            return
        with suppress(LogNotFound):
            await reader.take_all(self._follower.rest(tenant, response_id, after=reader.after))
        if reader.has_ended:  # the turn ended after its job was read
            if taken is not None:
                await self._jobs.release(taken, is_over=True)
        elif taken is not None:
            await self.run(taken, reader.take, reader.flow)
        elif reader.next_sequence:  # its log may have expired meanwhile, or its writer gave it up
            reader.take(await self._end_without_log(repeated, reader))

    async def _end_without_log(self, repeated: RepeatedRequest, reader: _Reader) -> Batch:
        """Makes the terminal batch of a turn whose log has none: from its record, which every other reader gets."""
        try:
            record = await self._store.get(repeated.tenant, repeated.response_id)
        except ResponseNotFound:
            await event_logs.parse(LogState(reader.fold), repeated.response_id)
            return await failure(reader.fold, InternalError("The stream broke off; ask for the response again."))
        return await self._follower.end_of(record, reader.next_sequence)


class _DetachableReceiver:
    """Passes batches on until it is detached, or the receiver fails."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    def receive(self, batch: Batch) -> None:
        try:
            self._receive(batch)
        except Exception:
            log.exception(
                "the receiver of a keyed turn failed and was detached; the turn goes on", extra=remedies.REPORT
            )
            self.detach()

    def detach(self) -> None:
        self._receive = discard
