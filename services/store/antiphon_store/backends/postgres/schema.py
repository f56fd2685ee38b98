"""The schema's version: which one the database has, and how it comes to this release's."""

from __future__ import annotations

from importlib.resources import files

from psycopg import sql

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.server import Connection

SCHEMA = "antiphon"
VERSION = 1
LOCK_KEY = 0x416E7469  # "Anti"


async def migrate(connection: Connection, schema: str = SCHEMA) -> None:
    """Makes the tables where there are none, under a lock that lets one replica at a time do it. StoreUnavailable: the
    database has those of a newer release."""
    async with connection.transaction():
        await connection.execute(QUERIES["lock_schema"], {"key": LOCK_KEY})
        await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        await connection.execute(QUERIES["make_schema_version"])
        if await _version(connection, schema) == 0:
            script = (files("antiphon_store.backends.postgres") / "schema.sql").read_text(encoding="utf-8")
            await connection.execute(script, prepare=False)
            await connection.execute(QUERIES["note_schema_version"], {"version": VERSION, "name": "schema"})


async def require_current(connection: Connection, schema: str = SCHEMA) -> None:
    """StoreUnavailable: the schema is not the one that this release works with."""
    version = await _version(connection, schema)
    if version < VERSION:
        raise StoreUnavailable(
            f"The database has schema version {version}, this release needs {VERSION}: run `antiphon store migrate`."
        )


async def _version(connection: Connection, schema: str) -> int:
    """0: the store was never here. StoreUnavailable: it is newer."""
    table = sql.Identifier(schema, "schema_version").as_string(connection)
    row = await (await connection.execute(QUERIES["find_schema_version"], {"table": table})).fetchone()
    if row is None or row[0] is None:
        return 0
    row = await (await connection.execute(QUERIES["read_schema_version"])).fetchone()
    version = int(row[0]) if row else 0
    if version > VERSION:
        raise StoreUnavailable(
            f"The database has schema version {version}, made by a newer release; this one knows {VERSION}. "
            "Use that release."
        )
    return version
