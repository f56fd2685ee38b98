"""Equal operations on each side of a comparison: the store in this process, the store by its client, and raw
engines."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Fence, Record, TurnCommit, TurnStart
from antiphon_store.client import StoreClient
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import new_session_id, turn_in
from benchmarks.measuring import Call
from benchmarks.store.subjects import CHAIN_RECORDS, TENANT, Session, Sessions, long_line, response

_choice = random.Random(13)


class Side(Protocol):
    """One side of a comparison. Each method but `fill` makes the arguments of one call, and returns the call."""

    async def fill(self, line: int, records: Sequence[Record]) -> None:
        """Stores a line of responses, each of which continues the one before. Lines are numbered; the long line is
        0."""

    def put(self) -> Call:
        """Puts a response without a parent."""

    def get(self) -> Call:
        """Gets a response of the long line."""

    def chain(self, depth: int) -> Call:
        """Reads the first `depth` responses of the long line."""

    def fork(self, length: int) -> Call:
        """Forks a session that begins with the first `length` responses of the long line."""

    def turn(self) -> Call:
        """Begins and commits a turn of a session: its history, its lease, its response."""


def any_of_line() -> int:
    return _choice.randrange(CHAIN_RECORDS)


def fence_of(start: TurnStart) -> Fence | None:
    return start.lease.fence if start.lease else None


class Port:
    """The store, in this process or by its client."""

    def __init__(self, store: StoreService | StoreClient) -> None:
        self._store = store
        self._sessions: Sessions[Record] = Sessions(lambda _line, _depth, record: record)

    async def fill(self, _line: int, records: Sequence[Record]) -> None:
        for record in records:
            await self._store.put(TENANT, record)

    def put(self) -> Call:
        return partial(self._store.put, TENANT, response())

    def get(self) -> Call:
        return partial(self._store.get, TENANT, long_line()[any_of_line()].id)

    def chain(self, depth: int) -> Call:
        return partial(self._store.chain, TENANT, long_line()[depth - 1].id)

    def fork(self, length: int) -> Call:
        head_id = long_line()[length - 1].id
        source = ForkSource(up_to_response_id=head_id)
        return partial(self._store.fork, TENANT, source, new_session_id=new_session_id(head_id))

    def turn(self) -> Call:
        self._sessions.plan_turn()
        return partial(self._sessions.run_turn, self._begin, self._commit)

    async def _begin(self, session: Session[Record], _record: Record) -> Fence | None:
        return fence_of(await self._store.begin_turn(TENANT, turn_in(session.id)))

    async def _commit(self, _session: Session[Record], record: Record, fence: Fence | None) -> None:
        await self._store.commit_turn(TENANT, TurnCommit(record, fence))
