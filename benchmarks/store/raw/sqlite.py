"""Python's sqlite3 as a raw engine: one thread writes, with a transaction for each write, and one thread reads."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from antiphon_store.rows.backend import Durability
from benchmarks.store.raw.rows import Row

_Answer = TypeVar("_Answer")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (place INTEGER PRIMARY KEY, tenant TEXT, id TEXT, parent_id TEXT, session_id TEXT,
    status TEXT, version INTEGER, created_at_ms INTEGER, updated_at_ms INTEGER, expires_at_ms INTEGER,
    items_crc INTEGER, body_crc INTEGER, input_bytes INTEGER, items BLOB, body BLOB);
CREATE UNIQUE INDEX IF NOT EXISTS node_by_id ON node (tenant, id);
CREATE TABLE IF NOT EXISTS session (tenant TEXT, id TEXT, head_id TEXT, holder TEXT, PRIMARY KEY (tenant, id))
    WITHOUT ROWID;
"""
_PUT = f"INSERT INTO node VALUES ({', '.join('?' * len(Row._fields))})"
_HOLD = """INSERT INTO session (tenant, id, holder) VALUES ('bench', ?, 'holder')
ON CONFLICT (tenant, id) DO UPDATE SET holder = excluded.holder"""
_SYNCHRONOUS = {Durability.DISK: "FULL", Durability.PROCESS: "NORMAL"}


class RawSqlite:
    """Implements `side.Engine`."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self._path = path
        self._durability = durability
        self._writer = ThreadPoolExecutor(max_workers=1)
        self._reader = ThreadPoolExecutor(max_workers=1)

    async def open(self) -> None:
        self._writing, self._reading = self._connect(), self._connect()
        self._writing.executescript(_SCHEMA)

    async def close(self) -> None:
        for thread in (self._writer, self._reader):
            thread.shutdown()
        for connection in (self._writing, self._reading):
            connection.close()

    async def put(self, row: Row) -> object:
        return await self._write(lambda connection: connection.execute(_PUT, row))

    async def get(self, row: Row) -> object:
        found = "SELECT * FROM node WHERE tenant = ? AND id = ?"
        return await self._read(lambda connection: connection.execute(found, (row.tenant, row.id)).fetchone())

    async def read(self, first: int, last: int) -> object:
        found = "SELECT * FROM node WHERE place BETWEEN ? AND ? ORDER BY place"
        return await self._read(lambda connection: connection.execute(found, (first, last)).fetchall())

    async def fork(self, session_id: str, head_id: str) -> object:
        made = "INSERT INTO session (tenant, id, head_id) VALUES ('bench', ?, ?)"
        return await self._write(lambda connection: connection.execute(made, (session_id, head_id)))

    async def begin(self, session_id: str, first: int, last: int) -> object:
        items = "SELECT items FROM node WHERE place BETWEEN ? AND ? ORDER BY place"

        def begin(connection: sqlite3.Connection) -> object:
            connection.execute(_HOLD, (session_id,))
            return connection.execute(items, (first, last)).fetchall()

        return await self._write(begin)

    async def commit(self, session_id: str, row: Row) -> object:
        head = "UPDATE session SET head_id = ?, holder = '' WHERE tenant = 'bench' AND id = ?"

        def commit(connection: sqlite3.Connection) -> None:
            connection.execute(_PUT, row)
            connection.execute(head, (row.id, session_id))

        return await self._write(commit)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self._durability]}")
        return connection

    async def _read(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work, self._reading)

    async def _write(self, work: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        def transaction() -> _Answer:
            self._writing.execute("BEGIN IMMEDIATE")
            answer = work(self._writing)
            self._writing.execute("COMMIT")
            return answer

        return await asyncio.get_running_loop().run_in_executor(self._writer, transaction)
