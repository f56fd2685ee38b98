"""The schema's versions: which one the database has, and how it comes to the newest.

All migrations that are missing run in one transaction, under a lock that lets one replica at a time do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from psycopg import sql

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.server import Connection

SCHEMA = "antiphon"
LOCK_KEY = 0x416E7469  # "Anti"

_FIND = QUERIES["find_schema_version"]
_LOCK = QUERIES["lock_schema"]
_READ = QUERIES["read_schema_version"]
_MAKE = QUERIES["make_schema_version"]
_NOTE = QUERIES["note_schema_version"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step. Its version is the number that its file's name begins with."""

    version: int
    name: str
    script: str


def migrations() -> list[Migration]:
    """All steps, in order."""
    folder = files("antiphon_store.backends.postgres") / "migrations"
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".sql"))
    return [
        Migration(int(name.partition("_")[0]), name.removesuffix(".sql"), (folder / name).read_text(encoding="utf-8"))
        for name in names
    ]


async def migrate(connection: Connection, schema: str = SCHEMA) -> list[str]:
    """Brings the schema to the newest version; the names of the steps that were missing. StoreUnavailable: it is newer
    already."""
    async with connection.transaction():
        await connection.execute(_LOCK, {"key": LOCK_KEY})
        await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        await connection.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
        await connection.execute(_MAKE)
        version = await _version(connection, schema)
        _refuse_newer(version)
        missing = [step for step in migrations() if step.version > version]
        for step in missing:
            await connection.execute(step.script, prepare=False)
            await connection.execute(_NOTE, {"version": step.version, "name": step.name})
    return [step.name for step in missing]


async def require_current(connection: Connection, schema: str = SCHEMA) -> None:
    """StoreUnavailable: the schema is not the one that this release works with."""
    version = await _version(connection, schema)
    _refuse_newer(version)
    newest = migrations()[-1].version
    if version < newest:
        raise StoreUnavailable(
            f"The database has schema version {version}, this release needs {newest}: run `antiphon store migrate`."
        )


async def _version(connection: Connection, schema: str) -> int:
    """0: the store was never here."""
    table = sql.Identifier(schema, "schema_version").as_string(connection)
    row = await (await connection.execute(_FIND, {"table": table})).fetchone()
    if row is None or row[0] is None:
        return 0
    row = await (await connection.execute(_READ)).fetchone()
    return int(row[0]) if row else 0


def _refuse_newer(version: int) -> None:
    newest = migrations()[-1].version
    if version > newest:
        raise StoreUnavailable(
            f"The database has schema version {version}, made by a newer release; this one knows {newest}. "
            "Use that release."
        )
