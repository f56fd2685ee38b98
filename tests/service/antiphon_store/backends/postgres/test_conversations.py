"""What only this engine has to care for: that what was read first is still so. The rest: tests/contract/store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from antiphon_core.errors import ConversationNotFound, InternalError, LimitExceeded
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.store import Record, Status
from antiphon_store.backends.base import Write
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.backends.places import DEPTH_MAX
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.postgres.conversations import _refusal
from antiphon_store.backends.postgres.server import Connection
from antiphon_store.testing.subject import draft, turn_in

ID = f"conv_{'0' * 48}"


def addition(*ids: str) -> Addition:
    return Addition(dumps([{"id": each} for each in ids]), digest=dumps(ids).decode(), salt=dumps(ids).decode())


async def found(backend: PostgresBackend, incarnation: str = "first", **options: Any) -> None:
    await backend.create_conversation("t", Founding(ID, b"{}", "origin", incarnation, **options))


async def names(backend: PostgresBackend) -> list[str]:
    return [item["id"] for item in loads(await backend.conversation_items("t", ID))]


def interrupt(backend: PostgresBackend, statement: str, deed: Callable[[], Awaitable[object]]) -> None:
    """Does something once, right before that statement."""
    run, deeds = backend._run, [deed]

    async def interrupted(name: str, *arguments: Any, **options: Any) -> Sequence[Any]:
        if name == statement and deeds:
            await deeds.pop()()
        return await run(name, *arguments, **options)

    backend._run = interrupted  # type: ignore[method-assign,assignment]


async def test_an_addition_belongs_to_the_conversation_that_is_there(
    backend: PostgresBackend, peer: PostgresBackend
) -> None:
    await found(backend)

    async def replace() -> None:
        await peer.remove_conversation("t", ID)
        await found(peer, "second")

    interrupt(backend, "add_items", replace)
    await backend.add_items("t", ID, addition("a"))
    assert await names(backend) == ["a"]
    await backend.add_items("t", ID, addition("a"))
    assert await names(backend) == ["a"]
    interrupt(backend, "add_items", lambda: peer.remove_conversation("t", ID))
    with pytest.raises(ConversationNotFound):
        await backend.add_items("t", ID, addition("b"))


async def test_an_item_is_taken_out_of_the_context_that_is_there(
    backend: PostgresBackend, peer: PostgresBackend
) -> None:
    await found(backend, first=addition("a"))
    interrupt(backend, "remove_item", lambda: peer.add_items("t", ID, addition("b")))
    await backend.remove_item("t", ID, "a")
    assert await names(backend) == ["b"]
    interrupt(backend, "remove_item", lambda: peer.remove_conversation("t", ID))
    with pytest.raises(ConversationNotFound):
        await backend.remove_item("t", ID, "b")


async def test_ids_of_items_may_be_long_and_anything(backend: PostgresBackend, connection: Connection) -> None:
    long = "ü\0" * 5000
    await found(backend, first=addition("a", long))
    for _ in range(2):
        await backend.remove_item("t", ID, long)
    assert await names(backend) == ["a"]
    assert await (await connection.execute("SELECT count(*) FROM removed_item")).fetchall() == [(1,)]


async def test_a_conversation_that_goes_leaves_nothing(backend: PostgresBackend, connection: Connection) -> None:
    await found(backend, first=addition("a", "b"))
    await backend.add_items("t", ID, addition("c"))
    await backend.remove_item("t", ID, "a")
    await backend.remove_conversation("t", ID)
    for table in ("conversation", "removed_item", "node", "branch"):
        assert await (await connection.execute(f"SELECT * FROM {table}")).fetchall() == []


async def test_an_addition_that_becomes_a_session_of_turns_is_one_round_trip_each(
    backend: PostgresBackend, statements: list[object]
) -> None:
    """Although its head is deleted from birth: whoever continues it need not look whether it can go."""
    await found(backend, first=addition("a"))
    start = await backend.begin_turn("t", turn_in(ID))
    assert start.lease is not None
    record = Record(draft(tag=ID).id, Status.COMPLETED, b"{}", parent_id=start.history.head_id, session_id=ID)
    statements.clear()
    await backend.commit_turn("t", Write(record), start.lease.fence)
    assert len(statements) == 1


async def test_damage_is_an_error_that_names_the_node(backend: PostgresBackend, connection: Connection) -> None:
    await found(backend, first=addition("a"))
    await connection.execute("UPDATE node SET items = set_byte(items, 1, 0)")
    with pytest.raises(InternalError, match="resp_0000000000000000"):
        await names(backend)


async def test_nothing_is_appended_behind_the_deepest_place(backend: PostgresBackend, connection: Connection) -> None:
    await found(backend, first=addition("a"))
    await connection.execute("UPDATE node SET place = place | 16777215")
    with pytest.raises(LimitExceeded, match=str(DEPTH_MAX)):
        await backend.add_items("t", ID, addition("b"))


def test_an_outcome_that_is_none_is_our_bug() -> None:
    assert isinstance(_refusal("nonsense", ID), InternalError)
