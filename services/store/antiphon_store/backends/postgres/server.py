"""Checks a PostgreSQL server and configures connections, both for the durability that the store promises."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper

from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.rows.backend import Durability

Connection = AsyncConnection[tuple[Any, ...]]

VERSION_MIN = 130000  # PostgreSQL 13: the oldest release that was still supported when this was written
CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 8_000  # the largest chain takes a second
LOCK_TIMEOUT_MS = 5_000

# Not `remote_apply`: it also makes writes readable on standbys, but the store reads from the primary only.
SYNCHRONOUS_COMMIT = {Durability.QUORUM: "on", Durability.DISK: "on", Durability.PROCESS: "off"}


def conninfo_of(url: str) -> str:
    """Returns the URL as a libpq connection string, with defaults for parameters that the URL does not set.
    SettingsError: the URL is malformed. Stars replace what libpq's message quotes, which may be the password."""
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "antiphon-store",
        "keepalives_idle": 30,
    }
    try:
        return make_conninfo("", **{**defaults, **conninfo_to_dict(url)})
    except (psycopg.Error, ValueError) as error:
        reason = re.sub('".*"', "***", str(error), flags=re.DOTALL).strip()
        raise SettingsError(f"The store's URL is not one of PostgreSQL: {reason}.") from None


async def configure(connection: Connection, *, schema: str, durability: Durability) -> None:
    """Applies the store's settings to a new connection."""
    connection.prepare_threshold = 0
    connection.adapters.register_dumper(int, Int8BinaryDumper)  # ints of any size have one type: one plan per statement
    await connection.execute(
        QUERIES["configure_session"],
        {
            "schema": schema,
            "synchronous_commit": SYNCHRONOUS_COMMIT[durability],
            "statement_timeout": str(STATEMENT_TIMEOUT_MS),
            "lock_timeout": str(LOCK_TIMEOUT_MS),
        },
    )


async def require_server(connection: Connection, durability: Durability) -> None:
    """Raises StoreUnavailable, with advice for the operator, if the server is too old or cannot keep the durability."""
    row = await (await connection.execute(QUERIES["server_facts"])).fetchone()
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    version, fsync, full_page_writes, standbys = row
    if version < VERSION_MIN:
        found = f"{version // 10000}.{version % 10000}"
        raise StoreUnavailable(f"PostgreSQL {VERSION_MIN // 10000} or newer is needed; this is {found}.")
    if durability is Durability.PROCESS:
        return
    if not (fsync and full_page_writes):
        raise StoreUnavailable(
            f"Durability '{durability}' needs a server with fsync and full_page_writes on. Turn them on, or set "
            "store.durability to 'process'."
        )
    if durability is Durability.QUORUM and not standbys:
        raise StoreUnavailable(
            "Durability 'quorum' needs a server with synchronous_standby_names. Name the standbys, or set "
            "store.durability to 'disk'."
        )
