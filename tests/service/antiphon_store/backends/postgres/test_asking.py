from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres.asking import Asking
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.schema import migrate
from antiphon_store.backends.postgres.server import Connection, conninfo_of


async def test_a_statement_is_asked_by_its_name_at_the_stores_time(url: str, schema: str, clock: ManualClock) -> None:
    async def configure(connection: Connection) -> None:
        await connection.execute(f"SET search_path = {schema}")

    async def prepare(connection: Connection) -> None:
        await migrate(connection, schema)

    connections = Connections(conninfo_of(url), configure=configure)
    await connections.open(prepare)
    found = {}
    for name, given in (("given", clock), ("servers", None)):
        asking = Asking(connections, given)
        parameters = {"tenant": "t", "session_id": name, "holder": b"h", "ttl_ms": 1000}
        ((_token, found[name]),) = await asking._run("acquire_lease", parameters)
    assert found["given"] == clock.now_ms() + 1000
    assert found["servers"] > found["given"]
    await connections.close()


async def test_nothing_is_asked_before_opening(url: str) -> None:
    with pytest.raises(StoreUnavailable):
        await Asking(Connections(conninfo_of(url), configure=lambda _: None), None)._run("ready", {})  # type: ignore[arg-type,return-value]
