"""Opens and configures connections to the database file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from antiphon_store.rows.backend import Durability

VERSION_MIN = (3, 31, 0)  # generated columns
APPLICATION_ID = 0x416E7469  # "Anti": marks a file as Antiphon's
BUSY_TIMEOUT_S = 5.0  # of a write, while another process writes
BUSY_RETRY_S = 0.01
PAGE_BYTES = 8192  # a typical response fits in a page
CACHE_KIB = 8 * 1024

_SYNCHRONOUS = {Durability.DISK: "FULL", Durability.PROCESS: "NORMAL"}


def connect(path: Path, durability: Durability) -> sqlite3.Connection:
    """Opens a connection in write-ahead-log mode, for use in any thread. Only the owner may read a new file.

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
    """Sets the journal mode, with retries: SQLite's busy timeout does not cover two processes that make a file."""
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


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
