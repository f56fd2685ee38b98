"""A raw engine as a side of a comparison: the least reads and writes that each operation needs, without rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from antiphon_core.ports.store import Record
from antiphon_store.testing.subject import new_session_id
from benchmarks.measuring import Call
from benchmarks.store.raw.rows import LINE_PLACES, Row, row_of
from benchmarks.store.sides import any_of_line
from benchmarks.store.subjects import CHAIN_RECORDS, LONG_LINE, Session, Sessions, long_line, new_line, response


class Engine(Protocol):
    """An engine, used by its own client. The positions of a line are consecutive."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def put(self, row: Row) -> object:
        """Writes one row durably."""

    async def get(self, row: Row) -> object:
        """Reads all columns of one row, by its id."""

    async def read(self, first: int, last: int) -> object:
        """Reads all columns of the rows from one position to another, in order."""

    async def fork(self, session_id: str, head_id: str) -> object:
        """Writes a session with a head durably."""

    async def begin(self, session_id: str, first: int, last: int) -> object:
        """Writes the session's lease durably, and reads the items of the rows from one position to another."""

    async def commit(self, session_id: str, row: Row) -> object:
        """Writes one row, the session's head and the end of its lease in one transaction."""


class Raw:
    """Implements `sides.Side`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sessions = Sessions(row_of)
        self._line = [row_of(LONG_LINE, depth, record) for depth, record in enumerate(long_line()[:CHAIN_RECORDS])]

    async def fill(self, line: int, records: Sequence[Record]) -> None:
        for depth, record in enumerate(records):
            await self._engine.put(row_of(line, depth, record))

    def put(self) -> Call:
        return partial(self._engine.put, row_of(new_line(), 0, response()))

    def get(self) -> Call:
        return partial(self._engine.get, self._line[any_of_line()])

    def chain(self, depth: int) -> Call:
        first = LONG_LINE * LINE_PLACES
        return partial(self._engine.read, first, first + depth - 1)

    def fork(self, length: int) -> Call:
        head_id = long_line()[length - 1].id
        return partial(self._engine.fork, new_session_id(head_id), head_id)

    def turn(self) -> Call:
        self._sessions.plan_turn()
        return partial(self._sessions.run_turn, self._begin, self._commit)

    async def _begin(self, session: Session[Row], row: Row) -> object:
        return await self._engine.begin(session.id, session.line * LINE_PLACES, row.place - 1)

    async def _commit(self, session: Session[Row], row: Row, _start: object) -> object:
        return await self._engine.commit(session.id, row)
