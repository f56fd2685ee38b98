"""Turns that begin in a session from which items were taken out: a script cannot cut them, and must not be late.

What turns do: tests/contract/store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from antiphon_core.errors import ChainTooLong, InternalError, SessionLocked
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.store import TurnRequest
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.redis.contexts import LOOKS_MAX, Look
from antiphon_store.backends.redis.turns import begun
from antiphon_store.testing.conversations import array, names_in, new_id
from antiphon_store.testing.subject import draft, turn_in


async def converse(backend: RedisBackend, tenant: str, *names: str) -> str:
    """A conversation of these items."""
    conversation_id = new_id()
    first = Addition(array(*names), digest="d", salt="first")
    await backend.create_conversation(tenant, Founding(conversation_id, b"{}", "origin", "incarnation", first))
    return conversation_id


def interfere(backend: RedisBackend, script: scripts.Script, act: Callable[[], Awaitable[object]], times: int) -> None:
    """Lets `act` happen behind each of the next so many runs of a script."""
    run, left = backend._run, times

    async def run_and_act(which: scripts.Script, *arguments: Any, **options: Any) -> Sequence[Any]:
        nonlocal left
        answer = await run(which, *arguments, **options)
        if which is script and left:
            left -= 1
            await act()
        return answer

    setattr(backend, "_run", run_and_act)  # noqa: B010 - as a method it cannot be assigned


async def test_what_is_taken_out_meanwhile_is_out(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, "a", "b", "c")
    await backend.remove_item(tenant, conversation_id, "a")
    interfere(backend, scripts.BEGIN_IN_SESSION, lambda: backend.remove_item(tenant, conversation_id, "b"), 1)
    start = await backend.begin_turn(tenant, turn_in(conversation_id))
    assert names_in(start.history.items) == ["c"]
    assert start.lease is not None
    assert (await backend.describe_session(tenant, conversation_id)).lease == start.lease


async def test_what_is_added_meanwhile_is_in(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, "a", "b")
    await backend.remove_item(tenant, conversation_id, "a")
    more = Addition(array("c"), digest="d", salt="more")
    interfere(backend, scripts.BEGIN_IN_SESSION, lambda: backend.add_items(tenant, conversation_id, more), 1)
    start = await backend.begin_turn(tenant, turn_in(conversation_id))
    assert names_in(start.history.items) == ["b", "c"]
    assert start.history.depth == 2


async def test_a_conversation_that_ended_meanwhile_is_empty(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, "a", "b")
    await backend.remove_item(tenant, conversation_id, "a")
    interfere(backend, scripts.BEGIN_IN_SESSION, lambda: backend.remove_conversation(tenant, conversation_id), 1)
    start = await backend.begin_turn(tenant, turn_in(conversation_id))
    assert (start.history.items, start.history.head_id) == (b"[]", None)
    assert start.lease is not None


async def test_a_session_that_always_changes_is_locked(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, *(f"i{n}" for n in range(LOOKS_MAX + 1)))
    await backend.remove_item(tenant, conversation_id, "i0")
    numbers = iter(range(1, LOOKS_MAX + 1))
    interfere(
        backend,
        scripts.BEGIN_IN_SESSION,
        lambda: backend.remove_item(tenant, conversation_id, f"i{next(numbers)}"),
        LOOKS_MAX,
    )
    with pytest.raises(SessionLocked):
        await backend.begin_turn(tenant, turn_in(conversation_id))
    session = await backend.describe_session(tenant, conversation_id)
    assert (session.last_fence, session.lease) == (0, None)


async def test_what_is_left_is_bounded_before_the_lease_is_taken(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, "a", "b", "x" * 500)
    await backend.remove_item(tenant, conversation_id, "x" * 500)
    left = len(array("a", "b"))
    with pytest.raises(ChainTooLong) as caught:
        await backend.begin_turn(tenant, turn_in(conversation_id, max_bytes=left - 1))
    assert f"{left - 1} bytes" in str(caught.value)
    session = await backend.describe_session(tenant, conversation_id)
    assert (session.last_fence, session.lease) == (0, None)
    start = await backend.begin_turn(tenant, turn_in(conversation_id, max_bytes=left))
    assert start.history.items == array("a", "b")


async def test_spaces_inside_items_do_not_count_when_some_are_taken_out(backend: RedisBackend, tenant: str) -> None:
    """Whatever is parsed is written anew: only the writer knows how long it is."""
    conversation_id = new_id()
    spacious = b'[{"id":"a",   "content":"a"},{"id":"b"}]'
    first = Addition(spacious, digest="d", salt="first")
    await backend.create_conversation(tenant, Founding(conversation_id, b"{}", "origin", "incarnation", first))
    await backend.remove_item(tenant, conversation_id, "b")
    left = dumps([loads(spacious)[0]])
    start = await backend.begin_turn(tenant, turn_in(conversation_id, max_bytes=len(left)))
    assert start.history.items == left


async def test_a_holder_that_asks_again_gets_the_same_lease(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, "a", "b")
    await backend.remove_item(tenant, conversation_id, "a")
    first = await backend.begin_turn(tenant, turn_in(conversation_id))
    assert await backend.begin_turn(tenant, turn_in(conversation_id)) == first
    with pytest.raises(SessionLocked):
        await backend.begin_turn(tenant, turn_in(conversation_id, holder="another"))


async def test_a_way_to_begin_that_is_not_known_is_an_error() -> None:
    async def ask(_seen: Look) -> Sequence[Any]:
        return [b"somehow"]

    with pytest.raises(InternalError, match="somehow"):
        await begun(TurnRequest(previous_response_id=draft().id), ask)
