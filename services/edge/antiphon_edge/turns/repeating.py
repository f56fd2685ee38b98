"""Turns under an idempotency key: run once, by one edge, for everybody who asks for the same.

Who comes first runs the turn; the others follow its log. When that is silent, a look at the turn's job (holding.py)
says whether anybody still runs it. If nobody does, the turn is taken over and goes on where its log ends, and its
readers notice nothing. A first request that came to nothing leaves the key free: then the next one is the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TypeVar

from antiphon_core.errors import AntiphonError, InternalError, JobNotFound, LogNotFound, Timeout, Unavailable
from antiphon_core.fold import Fold
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.store import Record
from antiphon_core.ports.translator import Batch
from antiphon_edge.background.following import Followings
from antiphon_edge.turns import told
from antiphon_edge.turns.begun import Begun, Repeated
from antiphon_edge.turns.ending import failure
from antiphon_edge.turns.first_requests import FirstRequest
from antiphon_edge.turns.holding import Holdings
from antiphon_edge.turns.running import Runs

LOOK_S = 1.0
"""How long a turn that runs elsewhere may say nothing before somebody looks whether it still does."""
AGAIN_S = 0.1
AWAY_MAX = 10
"""How many looks in a row may find the store away before a reader in mid-stream is told."""
ROUNDS_MAX = 60
"""How often a key is asked for again whose turn came to nothing."""

Begin = Callable[[], Awaitable[Begun | Repeated]]
T = TypeVar("T")


class Repetitions:
    """One instance serves all of a process."""

    def __init__(self, store: FullStore, runs: Runs, holdings: Holdings, *, look_s: float = LOOK_S) -> None:
        self._store = store
        self._runs = runs
        self._holdings = holdings
        self._followings = Followings(store)
        self._look_s = look_s

    async def stream(self, begin: Begin) -> AsyncGenerator[Batch, None]:
        """All events of the one turn, whoever runs it. `begin` accepts the request; it is asked again as long as what
        it names came to nothing. Closing the generator does not stop the turn."""
        first = FirstRequest(self._store)
        for _ in range(ROUNDS_MAX):
            has_begun, begun = False, await begin()
            async with aclosing(self._once(begun)) as batches:
                async for batch in batches:
                    has_begun = True
                    yield batch
            if has_begun:
                return
            if isinstance(begun, Repeated):
                await first.came_to_nothing(begun)
            await asyncio.sleep(AGAIN_S)
        raise Unavailable("An earlier request under this idempotency key came to nothing. Try again later.")

    def _once(self, begun: Begun | Repeated) -> AsyncGenerator[Batch, None]:
        if isinstance(begun, Begun):
            return self._first(begun)
        return self._says(begun) if begun.record is None else self._said(begun.tenant, begun.record)

    async def _first(self, begun: Begun) -> AsyncGenerator[Batch, None]:
        """A turn from its beginning; nothing when somebody else took it up."""
        held = await self._runs.hold(begun)
        if held is not None:
            async with aclosing(self._runs.detached(held)) as batches:
                async for batch in batches:
                    yield batch

    async def _said(self, tenant: str, record: Record) -> AsyncGenerator[Batch, None]:
        """The events of a finished response: as they were logged, or told again when the log is gone."""
        try:
            async for batch in self._followings.ended(tenant, record):
                yield batch
        except LogNotFound:
            async for batch in self._followings.told_again(record):
                yield batch

    async def _says(self, repeated: Repeated) -> AsyncGenerator[Batch, None]:
        """The events of a turn that runs, or ran until its edge died. Nothing, if it came to nothing."""
        heard = Fold()
        try:
            async with aclosing(self._follow(repeated)) as batches:
                async for batch in batches:
                    heard.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
                    yield batch
        except AntiphonError as error:
            if not heard.next_sequence:
                raise
            yield failure(heard, error)  # for this reader: the turn itself may well go on

    async def _follow(self, repeated: Repeated) -> AsyncGenerator[Batch, None]:
        after: int | None = None
        while True:
            async with aclosing(self._until_silent(repeated, after)) as batches:
                async for batch in batches:
                    after = batch.first_sequence + batch.count - 1
                    yield batch
                    if batch.final is not None:
                        return
            state = await self._patiently(lambda: self._state(repeated), tries=1 if after is None else AWAY_MAX)
            taken = None
            if state is JobState.QUEUED:
                taken = await self._holdings.take_over(repeated)
            if state is JobState.RUNNING or (state is JobState.QUEUED and taken is None):
                continue  # somebody runs it
            said = await told.read(self._store, repeated.tenant, repeated.response_id)
            if said.is_over:  # it ended between the two looks
                if taken is not None:
                    await self._holdings.let_go(taken, is_over=True)
                continue
            async with aclosing(self._behind(repeated, after, said, taken)) as batches:
                async for batch in batches:
                    yield batch
            return

    async def _behind(
        self, repeated: Repeated, after: int | None, said: told.Told, taken: Begun | None
    ) -> AsyncGenerator[Batch, None]:
        """The events behind `after` of a turn that nobody else runs: what is in its log, and what is yet to come."""
        with suppress(LogNotFound):
            async for batch in self._store.read_events(repeated.tenant, repeated.response_id, after=after):
                yield Batch(batch.first_sequence, batch.count, batch.frames)
        if taken is not None:
            async with aclosing(self._runs.detached(taken, said)) as batches:
                async for each in batches:
                    yield each
        elif said.fold.next_sequence:
            yield failure(said.fold, InternalError("The stream broke off; ask for the response again."))

    async def _until_silent(self, repeated: Repeated, after: int | None) -> AsyncGenerator[Batch, None]:
        """The events of a log as they come, until none comes for a while."""
        stream = self._followings.stream(repeated.tenant, repeated.response_id, after=after, patience_s=AGAIN_S)
        with suppress(LogNotFound, Unavailable, Timeout):
            async with aclosing(stream) as batches:
                async for batch in until_silent(batches, self._look_s):
                    yield batch

    async def _patiently(self, ask: Callable[[], Awaitable[T]], *, tries: int) -> T:
        """An answer of the store, which may be away for a while."""
        for _ in range(tries - 1):
            with suppress(Unavailable, Timeout):
                return await ask()
            await asyncio.sleep(self._look_s)
        return await ask()

    async def _state(self, repeated: Repeated) -> JobState | None:
        """How the turn's job is; None when it has none yet."""
        try:
            return (await self._store.describe_job(repeated.tenant, repeated.response_id)).state
        except JobNotFound:
            return None


async def until_silent(stream: AsyncGenerator[T, None], patience_s: float) -> AsyncGenerator[T, None]:
    """What comes from a stream, until nothing comes for so long; the stream is at its end then."""
    while True:
        coming = asyncio.ensure_future(anext(stream))
        try:
            await asyncio.wait([coming], timeout=patience_s)
            if not coming.done():
                return
            yield coming.result()
        except StopAsyncIteration:
            return
        finally:
            coming.cancel()
            await asyncio.wait([coming])
