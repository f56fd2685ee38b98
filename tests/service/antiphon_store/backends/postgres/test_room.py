"""The reserve in held cursors, and a simulated full disk. tests/faults fills a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres import room as room_module
from antiphon_store.backends.postgres import server
from antiphon_store.backends.postgres.connections import Connections
from antiphon_store.backends.postgres.queries import QUERIES
from antiphon_store.backends.postgres.room import PARTS, Room
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.rows.backend import Durability

FULL = "DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$"


async def configure(connection: Connection) -> None:
    await server.configure(connection, schema="public", durability=Durability.PROCESS)


async def succeed() -> None:
    """A write that finds space."""


async def find_disk_full() -> None:
    raise StoreUnavailable("full", full=True)


@pytest.fixture
async def aside(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connections]:
    monkeypatch.setattr(room_module, "READY_TIMEOUT_S", 30.0)
    connections = Connections(url, configure=configure, most=1)
    await connections.open()
    yield connections
    await connections.close()


async def held(aside: Connections) -> int:
    return len(await aside.run(room_module._held_names))


async def test_the_reserve_is_taken_lent_in_parts_and_taken_back(aside: Connections) -> None:
    room = Room(aside)
    await room.require()
    assert await held(aside) == len(PARTS)
    for left in reversed(range(len(PARTS))):
        assert await room.lend()
        assert await held(aside) == left
    assert not await room.lend()
    assert room.is_full
    await room.require()
    assert (await held(aside), room.is_full) == (len(PARTS), False)


async def test_writes_are_rejected_until_the_disk_has_room(aside: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(aside)
    with monkeypatch.context() as at_first:
        at_first.setitem(QUERIES, "canary", FULL)
        with pytest.raises(StoreUnavailable) as full:
            await room.require()
        assert full.value.is_full
        with pytest.raises(StoreUnavailable):
            await room.write(succeed, in_reserve=False)
    await room.require()
    await room.write(succeed, in_reserve=False)


async def test_a_write_that_finds_the_disk_full_makes_the_disk_be_checked_again(
    aside: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(aside)
    await room.require()
    monkeypatch.setitem(QUERIES, "canary", FULL)
    await room.require()  # the last check found room a moment ago
    with pytest.raises(StoreUnavailable):
        await room.write(find_disk_full, in_reserve=False)
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await room.require()
