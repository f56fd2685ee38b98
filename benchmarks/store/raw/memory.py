"""A dictionary as the raw engine of a store in memory."""

from __future__ import annotations

from benchmarks.store.raw.rows import Row


class RawMemory:
    """Implements `side.Engine`."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._places: dict[str, int] = {}
        self._sessions: dict[str, str] = {}

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def put(self, row: Row) -> None:
        self._rows[row.place] = row
        self._places[row.id] = row.place

    async def get(self, row: Row) -> object:
        return self._rows[self._places[row.id]]

    async def read(self, first: int, last: int) -> object:
        return [self._rows[place] for place in range(first, last + 1)]

    async def fork(self, session_id: str, head_id: str) -> None:
        self._sessions[session_id] = head_id

    async def begin(self, session_id: str, first: int, last: int) -> object:
        self._sessions[session_id] = "holder"
        return b",".join([self._rows[place].items for place in range(first, last + 1)])

    async def commit(self, session_id: str, row: Row) -> None:
        await self.put(row)
        self._sessions[session_id] = row.id
