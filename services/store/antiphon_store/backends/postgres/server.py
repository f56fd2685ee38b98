"""Checks of the server, and the settings of a connection for a durability."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper

from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.rows.backend import Durability

Connection = AsyncConnection[tuple[Any, ...]]

VERSION_MIN = 130000  # the oldest that its makers still cared for when this was written
CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 8_000  # a chain of the largest size takes a second; more is a server in trouble
LOCK_TIMEOUT_MS = 5_000

# What COMMIT waits for. `remote_apply` would only add that standbys can be read, which nobody does here.
SYNCHRONOUS_COMMIT = {Durability.QUORUM: "on", Durability.DISK: "on", Durability.PROCESS: "off"}

_FACTS = QUERIES["server_facts"]
_CONFIGURE = QUERIES["configure_session"]


def conninfo_of(url: str) -> str:
    """The URL with limits on what waits in the network, unless it has its own. SettingsError: it is none."""
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "antiphon-store",
        "keepalives_idle": 30,
    }
    try:
        return make_conninfo("", **{**defaults, **conninfo_to_dict(url)})
    except Exception as error:
        raise SettingsError(f"The store's URL is not one of PostgreSQL: {error}".strip()) from error


async def configure(connection: Connection, *, schema: str, durability: Durability) -> None:
    """Makes a new connection one of the store's."""
    connection.prepare_threshold = 0
    connection.adapters.register_dumper(int, Int8BinaryDumper)  # one type for all numbers: one plan per statement
    await connection.execute(
        _CONFIGURE,
        {
            "schema": schema,
            "synchronous_commit": SYNCHRONOUS_COMMIT[durability],
            "statement_timeout": str(STATEMENT_TIMEOUT_MS),
            "lock_timeout": str(LOCK_TIMEOUT_MS),
        },
    )


async def require_server(connection: Connection, durability: Durability) -> None:
    """StoreUnavailable, with what an operator can do: the server is too old, or cannot promise the durability."""
    row = await (await connection.execute(_FACTS)).fetchone()
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
