from __future__ import annotations

import re
from importlib.resources import files

import pytest

from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.places import DEPTH_BITS, DEPTH_MAX
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.schema import migrations
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.testing.subject import draft, new_session_id, turn_in

LENGTH = 40


@pytest.mark.parametrize("name", [name for name in QUERIES if not QUERIES[name].startswith("CREATE")])
async def test_every_statement_fits_the_schema(connection: Connection, name: str) -> None:
    parameters = dict.fromkeys(re.findall(r"%\((\w+)\)s", QUERIES[name]))
    await connection.execute(f"EXPLAIN {QUERIES[name]}", parameters)


async def test_no_atom_scans_a_table(connection: Connection, url: str, schema: str) -> None:
    """Not even with statistics that know of few rows, and not inside functions."""
    backend = PostgresBackend(url, database_schema=schema, durability=Durability.PROCESS)
    await backend.open()
    parent = None
    for number in range(LENGTH):
        record = draft(parent, session_id="s")
        await backend.put("t", Write(record))
        await backend.acquire_lease("t", new_session_id(), holder="h", ttl_ms=1000)
        parent = record if number % 3 else parent or record  # a fork now and then
    assert parent is not None
    await connection.execute("ANALYZE")
    await backend._connections.run(count_scans)

    async def use_everything(each: Connection) -> None:
        async with each.transaction():
            backend._connections.run = lambda atom, **_: atom(each)  # type: ignore[method-assign]
            await backend.ancestry("t", parent.id, max_depth=1000, max_bytes=2**30)
            start = await backend.begin_turn("t", turn_in("s"))
            assert start.lease is not None
            child = draft(parent, session_id="s")
            await backend.commit_turn("t", Write(child), start.lease.fence)
            await backend.put("t", Write(draft(parent)))
            await backend.fetch("t", child.id)
            await backend.begin_turn("t", turn_in("s"))
            await backend.describe_session("t", "s")
            await backend.remove("t", child.id, Write(child).precondition)
            assert await count_scans(each) == {}

    await backend._connections.run(use_everything)
    del backend._connections.run
    await backend.close()


async def count_scans(connection: Connection) -> dict[str, int]:
    """Tables that were scanned in this transaction."""
    statement = "SELECT relname::text, seq_scan FROM pg_stat_xact_user_tables WHERE seq_scan > 0"
    return {str(table): int(scans) for table, scans in await (await connection.execute(statement)).fetchall()}


def test_statements_agree_with_the_layout_of_places() -> None:
    folder = files("antiphon_store.backends.postgres")
    texts = [(folder / "queries.sql").read_text(), *(step.script for step in migrations())]
    code = "\n".join(line for text in texts for line in text.splitlines() if not line.startswith("--"))
    numbers = {int(number) for number in re.findall(r"(?:[&|=]|<<|>>) ?~?(\d{2,})", code)}
    assert numbers == {DEPTH_MAX, DEPTH_BITS}
