"""psycopg with a pool as a raw engine: each operation is one prepared statement in one transaction."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.sql import SQL
from psycopg_pool import AsyncConnectionPool

from antiphon_store.backends.postgres.server import SYNCHRONOUS_COMMIT
from antiphon_store.rows.backend import Durability
from benchmarks.store.raw.rows import Row

CONNECTIONS_MAX = 16  # as many as the store's own pool has

_Connection = AsyncConnection[tuple[Any, ...]]

SCHEMA = "raw"
_MAKE = """
CREATE SCHEMA IF NOT EXISTS raw;
CREATE TABLE IF NOT EXISTS raw.node (place bigint PRIMARY KEY, tenant text COLLATE "C", id text COLLATE "C",
    parent_id text COLLATE "C", session_id text COLLATE "C", status text COLLATE "C", version bigint,
    created_at_ms bigint, updated_at_ms bigint, expires_at_ms bigint, items_crc bigint, body_crc bigint,
    input_bytes bigint, items bytea, body bytea);
CREATE UNIQUE INDEX IF NOT EXISTS node_by_id ON raw.node (tenant, id);
CREATE TABLE IF NOT EXISTS raw.session (tenant text COLLATE "C", id text COLLATE "C", head_id text COLLATE "C",
    holder text COLLATE "C", PRIMARY KEY (tenant, id));
"""
_ROW = SQL(", ").join(SQL("%s") for _ in Row._fields)
_PUT = SQL("INSERT INTO raw.node VALUES ({})").format(_ROW)
_GET = SQL("SELECT * FROM raw.node WHERE tenant = %s AND id = %s")
_READ = SQL("SELECT * FROM raw.node WHERE place BETWEEN %s AND %s ORDER BY place")
_FORK = SQL("INSERT INTO raw.session (tenant, id, head_id) VALUES ('bench', %s, %s)")
_BEGIN = SQL("""
WITH held AS (
    INSERT INTO raw.session (tenant, id, holder) VALUES ('bench', %s, 'holder')
    ON CONFLICT (tenant, id) DO UPDATE SET holder = excluded.holder
)
SELECT items FROM raw.node WHERE place BETWEEN %s AND %s ORDER BY place
""")
_COMMIT = SQL("""
WITH row AS (INSERT INTO raw.node VALUES ({}))
UPDATE raw.session SET head_id = %s, holder = '' WHERE tenant = 'bench' AND id = %s
""").format(_ROW)


class RawPostgres:
    """Implements `side.Engine`."""

    def __init__(self, url: str, durability: Durability) -> None:
        self._durability = durability
        self._pool: AsyncConnectionPool[_Connection] = AsyncConnectionPool(
            url,
            kwargs={"autocommit": True, "prepare_threshold": 0},
            connection_class=AsyncConnection[tuple[Any, ...]],
            configure=self._configure,
            min_size=1,
            max_size=CONNECTIONS_MAX,
            open=False,
        )

    async def open(self) -> None:
        await self._pool.open(wait=True)
        async with self._pool.connection() as connection:
            await connection.execute(_MAKE, prepare=False)  # several statements

    async def close(self) -> None:
        await self._pool.close()

    async def put(self, row: Row) -> None:
        await self._execute(_PUT, row)

    async def get(self, row: Row) -> object:
        return await self._fetch(_GET, (row.tenant, row.id))

    async def read(self, first: int, last: int) -> object:
        return await self._fetch(_READ, (first, last))

    async def fork(self, session_id: str, head_id: str) -> None:
        await self._execute(_FORK, (session_id, head_id))

    async def begin(self, session_id: str, first: int, last: int) -> object:
        return await self._fetch(_BEGIN, (session_id, first, last))

    async def commit(self, session_id: str, row: Row) -> None:
        await self._execute(_COMMIT, (*row, row.id, session_id))

    async def _configure(self, connection: _Connection) -> None:
        await connection.execute(f"SET synchronous_commit = {SYNCHRONOUS_COMMIT[self._durability]}")

    async def _execute(self, query: Any, parameters: tuple[Any, ...]) -> None:
        async with self._pool.connection() as connection:
            await connection.execute(query, parameters)

    async def _fetch(self, query: Any, parameters: tuple[Any, ...]) -> object:
        async with self._pool.connection() as connection:
            return await (await connection.execute(query, parameters, binary=True)).fetchall()
