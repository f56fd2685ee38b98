"""The schema of a file: one version, made at once."""

from __future__ import annotations

import sqlite3
from importlib.resources import files

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.sqlite.connection import APPLICATION_ID, statements

SCHEMA_VERSION = 10


def prepare(connection: sqlite3.Connection) -> None:
    """Makes the tables of a new file, in one transaction. StoreUnavailable: the file is not ours to use."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        _prepare(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and tables:
        raise StoreUnavailable("The SQLite file belongs to another program; give the store a file of its own.")
    if tables and version != SCHEMA_VERSION:
        age = "a newer" if version > SCHEMA_VERSION else "an older"
        raise StoreUnavailable(
            f"The SQLite file has schema version {version}, made by {age} release; this one has {SCHEMA_VERSION}. "
            "Use that release, or a new file."
        )
    if not tables:
        script = files("antiphon_store.backends.sqlite") / "schema.sql"
        for statement in statements(script.read_text(encoding="utf-8")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
