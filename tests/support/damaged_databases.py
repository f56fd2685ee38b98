"""Databases whose rows a test overwrites behind the store, as a bad disk or another program does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson
import psycopg
import redis

from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.redis.keys import root
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability, RowBackend
from antiphon_store.rows.model import Kind, Partition
from tests.support.postgres_server import shared_postgres
from tests.support.redis_servers import redis_rows, shared_redis

SCHEMA = "damaged_rows"
COLUMNS = ("fields", "items", "body")


class StoredRow(NamedTuple):
    """A row as the database has it. `fields` is its JSON."""

    tree: Any
    kind: Kind
    id: str
    fields: bytes
    items: bytes
    body: bytes


class Database(Protocol):
    """The rows of a tenant, as a program beside the store sees them."""

    def rows(self) -> list[StoredRow]: ...

    def write(self, row: StoredRow, column: str, value: Any) -> bool:
        """Overwrites a column. False: the database itself rejects the value."""


class SqliteFile:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self) -> list[StoredRow]:
        columns = "id, fields, items, body"
        found = self._connection.execute(
            f"SELECT tree, 'node', {columns} FROM node UNION ALL SELECT tree, kind, {columns} FROM row"
        )
        return [StoredRow(tree, Kind(kind), *rest) for tree, kind, *rest in found]

    def write(self, row: StoredRow, column: str, value: Any) -> bool:
        table, key = (
            ("node", "tree = ? AND id = ?") if row.kind is Kind.NODE else ("row", "tree = ? AND id = ? AND kind = ?")
        )
        names = (row.tree, row.id) if row.kind is Kind.NODE else (row.tree, row.id, row.kind)
        try:
            self._connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key}", (value, *names))
        except sqlite3.Error:
            return False
        return True


class PostgresTable:
    def __init__(self, connection: psycopg.Connection[Any], tenant: str) -> None:
        self._connection = connection
        self._tenant = tenant

    def rows(self) -> list[StoredRow]:
        query = f"SELECT tree, kind, id, fields, items, body FROM {SCHEMA}.stored_row WHERE tenant = %s"
        found = self._connection.execute(query, (self._tenant,))
        return [
            StoredRow(tree, Kind(kind), row_id, fields.encode(), *rest) for tree, kind, row_id, fields, *rest in found
        ]

    def write(self, row: StoredRow, column: str, value: Any) -> bool:
        query = (
            f"UPDATE {SCHEMA}.stored_row SET {column} = %s WHERE tenant = %s AND tree = %s AND kind = %s AND id = %s"
        )
        if column == "fields" and isinstance(value, bytes):
            value = value.decode("latin-1")
        try:
            self._connection.execute(query, (value, self._tenant, row.tree, row.kind, row.id))
        except (psycopg.Error, ValueError):
            return False
        return True


class RedisHashes:
    def __init__(self, client: redis.Redis, tenant: str) -> None:
        self._client: Any = client  # whose types do not know that it answers with bytes
        self._tenant = tenant

    def rows(self) -> list[StoredRow]:
        found = []
        for key in self._client.keys(root(Partition(self._tenant, "*")).replace("%2A", "*") + ":*"):
            name, _, kind = key.decode().rpartition(":")
            if kind in set(Kind) and name.endswith("}"):
                for row_id, fields in self._client.hgetall(key).items():
                    payloads = [self._client.hget(f"{name}:{kind}:{each}", row_id) or b"" for each in COLUMNS[1:]]
                    found.append(StoredRow(name, Kind(kind), row_id.decode(), _as_json(fields), *payloads))
        return found

    def write(self, row: StoredRow, column: str, value: Any) -> bool:
        if column == "fields":
            self._client.hset(f"{row.tree}:{row.kind}", row.id, _as_lines(value))
        else:
            self._client.hset(f"{row.tree}:{row.kind}:{column}", row.id, value)
        return True


def _as_json(lines: bytes) -> bytes:
    return b"{" + lines.removeprefix(b"\n,").replace(b"\n,", b",") + b"}"


def _as_lines(value: Any) -> Any:
    """The members of an object in lines of their own, as the store writes them; other values unchanged."""

    try:
        members = orjson.loads(value)
        return b"".join(b'\n,"%b":%b' % (name.encode(), orjson.dumps(each)) for name, each in members.items())
    except (ValueError, AttributeError, TypeError):
        return value


class Damaged(NamedTuple):
    """A backend over new data, and a way to its database for one tenant."""

    backend: Callable[[Path], RowBackend]
    database: Callable[[Path, str], AbstractContextManager[Database]]


@contextmanager
def _sqlite(folder: Path, _tenant: str) -> Iterator[Database]:
    with closing(sqlite3.connect(folder / "rows.db", isolation_level=None)) as connection:
        yield SqliteFile(connection)


@contextmanager
def _postgres(_folder: Path, tenant: str) -> Iterator[Database]:
    with psycopg.connect(shared_postgres().url, autocommit=True) as connection:
        yield PostgresTable(connection, tenant)


@contextmanager
def _redis(_folder: Path, tenant: str) -> Iterator[Database]:
    with closing(redis.Redis.from_url(shared_redis().url)) as client:
        yield RedisHashes(client, tenant)


DATABASES = {
    "sqlite": Damaged(lambda folder: SqliteRows(folder / "rows.db", durability=Durability.PROCESS), _sqlite),
    "postgres": Damaged(
        lambda _folder: PostgresRows(shared_postgres().url, durability=Durability.PROCESS, database_schema=SCHEMA),
        _postgres,
    ),
    "redis": Damaged(lambda _folder: redis_rows(shared_redis().url), _redis),
}
