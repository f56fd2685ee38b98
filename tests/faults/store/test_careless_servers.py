"""Power loss, as far as settings show it: a server that does not flush to its disk before it answers is rejected at
durability `disk`, and a session never commits with less, whatever the server's default is."""

from __future__ import annotations

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.rows.backend import Durability
from tests.support.postgres_server import postgres_server
from tests.support.redis_servers import redis_rows, redis_server


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--appendonly", "yes", "--appendfsync", "everysec"), "appendfsync is everysec, and must be always"),
        (("--appendonly", "yes", "--appendfsync", "no"), "appendfsync is no, and must be always"),
        (("--appendonly", "no"), "appendonly must be yes"),
    ],
)
async def test_redis_that_does_not_flush_is_refused(options: tuple[str, ...], words: str) -> None:
    with redis_server((*options, "--save", "")) as server:
        with pytest.raises(StoreUnavailable, match=words):
            await redis_rows(server.url, durability=Durability.DISK).open()
        careless = redis_rows(server.url, durability=Durability.MEMORY)
        await careless.open()
        await careless.close()


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
async def test_postgres_that_does_not_flush_is_refused(setting: str) -> None:
    with postgres_server(**{setting: "off"}) as server:
        with pytest.raises(StoreUnavailable, match="fsync and full_page_writes on"):
            await PostgresRows(server.url, durability=Durability.DISK).open()
        careless = PostgresRows(server.url, durability=Durability.PROCESS)
        await careless.open()
        await careless.close()


async def test_a_server_default_of_asynchronous_commit_is_overridden() -> None:
    async def level(connection: Connection) -> str:
        row = await (await connection.execute("SELECT current_setting('synchronous_commit')")).fetchone()
        assert row is not None
        return str(row[0])

    with postgres_server(synchronous_commit="off") as server:
        backend = PostgresRows(server.url, durability=Durability.DISK)
        await backend.open()
        assert await backend._connections.run(level) == "on"
        await backend.close()
