"""Maintenance of a PostgreSQL database: lists its rows, makes backups of its schema and restores them.

A backup is a zip archive of a manifest and the tables, as COPY writes them. All tables are read in one snapshot, which
blocks no writer. An archive has checksums, and its list of contents at the end, so that a truncated archive is rejected
before anything is restored.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from antiphon_core.jsons import dumps, loads
from antiphon_store.backends import named_queries
from antiphon_store.backends.postgres import schema as schemas
from antiphon_store.backends.postgres import server
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.faults import translate
from antiphon_store.backends.postgres.plain_text import original, plain
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.backends.sql_maintenance import SqlMaintenance
from antiphon_store.operations.files import OperationError, new_file
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.maintenance import Progress

QUERIES = named_queries.load("antiphon_store.backends.postgres", "maintenance.sql")

FORMAT = "antiphon-postgresql-1"
MANIFEST = "manifest.json"
PIECE_BYTES = 2**20
COMPRESSION_LEVEL = 1


class PostgresMaintenance(SqlMaintenance):
    """Lists and erases rows on the backend's connections; backups have connections of their own."""

    def __init__(self, conninfo: str, schema: str, connections: Connections) -> None:
        super().__init__(self._run, self._count)
        self._conninfo = conninfo
        self._schema = schema
        self._connections = connections

    async def backup(self, file: Path, on_progress: Progress) -> None:
        """Copies the schema's tables into a file."""
        with new_file(file) as draft:
            async with self._connection() as connection:
                await connection.execute(QUERIES["snapshot"])
                version = await schemas.version_of(connection)
                if not version:
                    raise OperationError("There is no store in this database.")
                tables = dict(await (await connection.execute(QUERIES["tables"])).fetchall())
                with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as archive:
                    manifest = {"format": FORMAT, "schema_version": version, "tables": tables}
                    archive.writestr(MANIFEST, dumps(manifest))
                    for table, columns in tables.items():
                        await _copy_out(connection, archive, table, columns, on_progress)

    async def restore(self, file: Path, on_progress: Progress) -> None:
        """Fills the tables from a file, all in one transaction."""
        try:
            with zipfile.ZipFile(file) as archive:
                tables = _tables(archive, file)
                async with self._connection() as connection:
                    await schemas.migrate(connection, self._schema)
                    async with connection.transaction():
                        for table, columns in tables.items():
                            await _copy_in(connection, archive, table, columns, on_progress)
        except (zipfile.BadZipFile, zlib.error) as error:
            raise OperationError(f"{file} is damaged, cut off, or not a backup of a PostgreSQL store.") from error

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """A connection to the store's schema, without timeouts. StoreUnavailable."""
        try:
            async with await AsyncConnection.connect(self._conninfo, autocommit=True) as connection:
                await server.configure(connection, schema=self._schema, durability=Durability.DISK)
                await connection.execute(QUERIES["without_timeouts"])
                yield connection
        except psycopg.Error as error:
            raise translate(error) from error

    async def _count(self, name: str, values: dict[str, Any]) -> int:
        ((count,),) = await self._run(name, values)
        return int(count)

    async def _run(self, name: str, values: dict[str, Any]) -> list[Any]:
        given = {key: plain(value) if isinstance(value, str) else value for key, value in values.items()}

        async def atom(connection: Connection) -> list[Any]:
            return await (await connection.execute(QUERIES[name], given)).fetchall()

        found = await self._connections.run(atom)
        return [tuple(original(value) if isinstance(value, str) else value for value in line) for line in found]


def _tables(archive: zipfile.ZipFile, file: Path) -> dict[str, Sequence[str]]:
    """The tables of a backup, and their columns."""
    manifest = loads(archive.read(MANIFEST)) if MANIFEST in archive.namelist() else {}
    if manifest.get("format") != FORMAT:
        raise OperationError(f"{file} is not a backup of a PostgreSQL store.")
    version = manifest["schema_version"]
    if version != schemas.VERSION:
        raise OperationError(
            f"{file} has schema version {version}, this release {schemas.VERSION}. Restore it with the release that "
            "made it, then upgrade."
        )
    return dict(manifest["tables"])


async def _copy_out(
    connection: Connection, archive: zipfile.ZipFile, table: str, columns: Sequence[str], on_progress: Progress
) -> None:
    statement = sql.SQL("COPY {} ({}) TO STDOUT (FORMAT binary)").format(*_names(table, columns))
    with archive.open(table, "w", force_zip64=True) as member:
        async with connection.cursor().copy(statement) as copy:
            async for piece in copy:
                member.write(piece)
                on_progress(1)


async def _copy_in(
    connection: Connection, archive: zipfile.ZipFile, table: str, columns: Sequence[str], on_progress: Progress
) -> None:
    name, listed = _names(table, columns)
    await connection.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(name))
    if await (await connection.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(name))).fetchone() is not None:
        raise OperationError("The database holds data already. Restore into an empty one.")
    with archive.open(table) as member:
        async with connection.cursor().copy(
            sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(name, listed)
        ) as copy:
            while piece := member.read(PIECE_BYTES):
                await copy.write(piece)
                on_progress(1)


def _names(table: str, columns: Sequence[str]) -> tuple[sql.Identifier, sql.Composed]:
    return sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
