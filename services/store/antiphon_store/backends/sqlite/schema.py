"""The schema of a SQLite file: made as a whole in a new file, and brought up to date by migrations in an older one.

Processes of the previous release may run during a migration, so it must not change the tables that they read and write:
it adds tables, indexes, and columns with defaults. A later release drops the parts that no process uses any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from importlib.resources import files

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends import sql_views
from antiphon_store.backends.sqlite.connection import APPLICATION_ID, statements

FIRST_VERSION = 11
MIGRATIONS: Sequence[str] = (
    """
    ALTER TABLE node ADD COLUMN depth INTEGER GENERATED ALWAYS AS (place & 16777215) VIRTUAL;
    ALTER TABLE node ADD COLUMN created INTEGER
        GENERATED ALWAYS AS (json_extract(CAST(fields AS TEXT), '$.created')) VIRTUAL;
    CREATE INDEX node_by_level ON node (tree, depth, created, id);
    CREATE INDEX node_by_time ON node (tree, created, id);
    """,
    sql_views.script(sql_views.SQLITE),
)
"""One script for each version after FIRST_VERSION. All of them turn the first schema into schema.sql with the views."""
SCHEMA_VERSION = FIRST_VERSION + len(MIGRATIONS)


def prepare(connection: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Brings the tables up to date in one transaction, which excludes other writers. StoreUnavailable: as
    `require_ours`."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        version = require_ours(connection, newest=FIRST_VERSION + len(migrations))
        if version is None:
            script = files("antiphon_store.backends.sqlite") / "schema.sql"
            _run(connection, script.read_text(encoding="utf-8") + sql_views.script(sql_views.SQLITE))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            version = SCHEMA_VERSION
        for each in migrations[version - FIRST_VERSION :]:
            _run(connection, each)
        connection.execute(f"PRAGMA user_version = {FIRST_VERSION + len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def require_ours(connection: sqlite3.Connection, *, newest: int = SCHEMA_VERSION) -> int | None:
    """The version of the schema; None for an empty file. StoreUnavailable: the file belongs to another program, or its
    schema to a release that this one does not know."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and tables:
        raise StoreUnavailable("The SQLite file belongs to another program; give the store a file of its own.")
    if tables and not FIRST_VERSION <= version <= newest:
        age, advice = ("a newer", "that release") if version > newest else ("an older", "that release, or a new file")
        raise StoreUnavailable(
            f"The SQLite file has schema version {version}, made by {age} release; this one knows {FIRST_VERSION} to "
            f"{newest}. Use {advice}."
        )
    return version if tables else None


def _run(connection: sqlite3.Connection, script: str) -> None:
    for statement in statements(script):
        connection.execute(statement)
