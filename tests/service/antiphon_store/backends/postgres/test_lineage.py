from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from antiphon_core.errors import InternalError
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import NO_PRECONDITION, Precondition
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.lineage import digest_of
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.testing.subject import draft

LONG_ID = "i" * 20_000  # far more than an index takes


@pytest.fixture
async def backend(url: str, schema: str) -> AsyncIterator[PostgresBackend]:
    backend = PostgresBackend(url, database_schema=schema, durability=Durability.PROCESS)
    await backend.open()
    yield backend
    await backend.close()


async def items(connection: Connection) -> int:
    row = await (await connection.execute("SELECT count(*) FROM item")).fetchone()
    assert row is not None
    return int(row[0])


async def test_items_come_and_go_with_their_response(backend: PostgresBackend, connection: Connection) -> None:
    record = draft(input_items=b'[{"id":"%b"}]' % LONG_ID.encode())
    await backend.put("t", Write(record, item_ids=(LONG_ID, "ü\0")))
    assert await items(connection) == 2
    (found,) = await backend.find_items("t", [LONG_ID], max_bytes=2**20)
    assert (found.id, found.response_id) == (LONG_ID, record.id)
    changed = replace(record, input_items=b"[]")
    await backend.put("t", Write(changed, Precondition(version=1), item_ids=("ü\0",)))
    assert await items(connection) == 1
    await backend.remove("t", record.id, NO_PRECONDITION)
    assert await items(connection) == 0


def test_items_are_found_by_digests_of_one_length() -> None:
    assert len({digest_of(each) for each in (LONG_ID, "ü\0", "")}) == 3
    assert len(digest_of(LONG_ID)) == 32


async def test_a_fork_copies_nothing(backend: PostgresBackend, connection: Connection) -> None:
    record = draft(session_id="s")
    await backend.put("t", Write(record))
    before = await (await connection.execute("SELECT * FROM node")).fetchall()
    fork = await backend.fork("t", ForkSource("s", record.id), "other")
    assert fork.head_id == record.id
    assert await (await connection.execute("SELECT * FROM node")).fetchall() == before
    assert (await backend.describe_session("t", "other")).head_id == record.id


async def test_damage_is_an_error_that_names_the_response(backend: PostgresBackend, connection: Connection) -> None:
    record = draft(session_id="s")
    await backend.put("t", Write(record, item_ids=("a",)))
    await connection.execute("UPDATE node SET items = set_byte(items, 3, 0)")
    with pytest.raises(InternalError, match=record.id):
        await backend.find_items("t", ["a"], max_bytes=2**20)
    with pytest.raises(InternalError, match=record.id):
        await backend.fetch_many("t", [record.id], max_bytes=2**20)
