from __future__ import annotations

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres import server
from antiphon_store.backends.postgres.server import Connection, configure, conninfo_of, require_server
from antiphon_store.rows.backend import Durability
from tests.support.postgres_server import postgres_server


async def setting(connection: Connection, name: str) -> str:
    row = await (await connection.execute("SELECT current_setting(%s)", [name])).fetchone()
    assert row is not None
    return str(row[0])


def test_a_url_gets_limits_unless_it_has_its_own() -> None:
    assert "connect_timeout=5" in conninfo_of("postgresql://host/database")
    assert "connect_timeout=1" in conninfo_of("postgresql://host/database?connect_timeout=1")


@pytest.mark.parametrize("url", ["postgresql://host/database?no=such", "postgresql://[host/database"])
def test_a_url_that_is_none_is_a_mistake_in_the_settings(url: str) -> None:
    with pytest.raises(SettingsError, match="not one of PostgreSQL"):
        conninfo_of(url)


@pytest.mark.parametrize("password", ["one two", 'one "two', "one: two", 'one": two', "one%zztwo"])
def test_error_of_a_malformed_url_leaves_out_its_password(password: str) -> None:
    with pytest.raises(SettingsError, match="not one of PostgreSQL: [a-z]") as caught:
        conninfo_of(f"postgresql://user:{password}@host/database")
    assert "one" not in str(caught.value).removeprefix("The store's URL is not one of PostgreSQL")
    assert "two" not in str(caught.value)


@pytest.mark.parametrize(
    ("durability", "synchronous_commit"),
    [(Durability.QUORUM, "on"), (Durability.DISK, "on"), (Durability.PROCESS, "off")],
)
async def test_durability_is_what_a_commit_waits_for(
    empty: Connection, durability: Durability, synchronous_commit: str
) -> None:
    await configure(empty, schema="here", durability=durability)
    assert await setting(empty, "synchronous_commit") == synchronous_commit
    assert await setting(empty, "search_path") == "here"
    assert await setting(empty, "statement_timeout") == "8s"


@pytest.mark.parametrize("durability", [Durability.PROCESS, Durability.DISK])
async def test_an_ordinary_server_keeps_what_it_promises(empty: Connection, durability: Durability) -> None:
    await require_server(empty, durability)


async def test_a_quorum_needs_others(empty: Connection) -> None:
    with pytest.raises(StoreUnavailable, match="synchronous_standby_names"):
        await require_server(empty, Durability.QUORUM)


async def test_an_old_server_is_refused(empty: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "VERSION_MIN", 990000)
    with pytest.raises(StoreUnavailable, match=r"PostgreSQL 99 or newer is needed; this is \d+\."):
        await require_server(empty, Durability.PROCESS)


async def test_a_server_that_does_not_flush_is_refused_for_disk() -> None:
    with postgres_server(fsync="off") as careless:
        connection: Connection = await Connection.connect(careless.url, autocommit=True)
        await require_server(connection, Durability.PROCESS)
        with pytest.raises(StoreUnavailable, match="fsync"):
            await require_server(connection, Durability.DISK)
        await connection.close()
