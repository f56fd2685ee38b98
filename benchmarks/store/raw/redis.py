"""redis-py as a raw engine, with a pipeline for each operation. The rows of a line are three hashes, from position to
columns, items and body. All keys have one hash tag."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis, RedisCluster

from benchmarks.store.raw.rows import LINE_PLACES, Row

CONNECTIONS_MAX = 80

_Command = tuple[str | int | bytes, ...]


class RawRedis:
    """Implements `side.Engine`."""

    def __init__(self, host: str, port: int, *, is_cluster: bool) -> None:
        kind: Any = RedisCluster if is_cluster else Redis
        self._client: Redis | RedisCluster = kind(host=host, port=port, max_connections=CONNECTIONS_MAX)

    async def open(self) -> None:
        await self._client.ping()

    async def close(self) -> None:
        await self._client.aclose()

    async def put(self, row: Row) -> object:
        return await self._ask(*_inserts(row))

    async def get(self, row: Row) -> object:
        return await self.read(row.place, row.place)

    async def read(self, first: int, last: int) -> object:
        return await self._ask(*(_select(part, first, last) for part in ("columns", "items", "body")))

    async def fork(self, session_id: str, head_id: str) -> object:
        return await self._ask(("HSET", _session(session_id), "head", head_id))

    async def begin(self, session_id: str, first: int, last: int) -> object:
        hold: _Command = ("HSET", _session(session_id), "holder", "holder")
        if first > last:
            return await self._ask(hold)
        return await self._ask(hold, _select("items", first, last))

    async def commit(self, session_id: str, row: Row) -> object:
        return await self._ask(*_inserts(row), ("HSET", _session(session_id), "head", row.id, "holder", ""))

    async def _ask(self, *commands: _Command) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            answers: list[Any] = await pipeline.execute()
        return answers


def _inserts(row: Row) -> list[_Command]:
    columns = " ".join(str(column) for column in row[1:-2])
    parts = (("columns", columns), ("items", row.items), ("body", row.body))
    return [("HSET", _part(part, row.place), row.place, value) for part, value in parts]


def _select(part: str, first: int, last: int) -> _Command:
    return ("HMGET", _part(part, first), *range(first, last + 1))


def _part(name: str, place: int) -> str:
    return f"{{bench}}:{place // LINE_PLACES}:{name}"


def _session(session_id: str) -> str:
    return f"{{bench}}:session:{session_id}"
