"""Connections to the database file: how they are set up, and how the schema comes to its newest version."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.base import Durability

VERSION_MIN = (3, 24, 0)  # UPSERT
APPLICATION_ID = 0x416E7469  # "Anti": tells our files from anybody else's
BUSY_TIMEOUT_S = 5.0  # how long to wait for another process that writes
BUSY_RETRY_S = 0.01
PAGE_BYTES = 8192  # a typical response fits in a page
CACHE_KIB = 8 * 1024

_SYNCHRONOUS = {Durability.DISK: "FULL", Durability.PROCESS: "NORMAL"}


def connect(path: Path, durability: Durability) -> sqlite3.Connection:
    """A connection in write-ahead-log mode that may be handed from thread to thread. A new file is its owner's alone.

    Raises sqlite3.Error and OSError."""
    path.touch(mode=0o600)
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=64
    )
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        _enter_write_ahead_logging(connection)
        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


def _enter_write_ahead_logging(connection: sqlite3.Connection) -> None:
    """SQLite's own waiting does not cover this change, which two first openings of a file may want at once."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_RETRY_S)
        else:
            return


def migrate(connection: sqlite3.Connection) -> None:
    """Brings the schema to the newest version, in one transaction. StoreUnavailable: the file is not ours to use."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        _migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection) -> None:
    migrations = _migrations()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and tables:
        raise StoreUnavailable("The SQLite file belongs to another program; give the store a file of its own.")
    if version > len(migrations):
        raise StoreUnavailable(
            f"The SQLite file has schema version {version}, made by a newer release; "
            f"this one knows {len(migrations)}. Use that release, or an older copy of the file."
        )
    for script in migrations[version:]:
        for statement in statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(migrations)}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _migrations() -> list[str]:
    folder = files("antiphon_store.backends.sqlite") / "migrations"
    scripts = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name)
    return [script.read_text(encoding="utf-8") for script in scripts]


def statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
