"""Conversations as they lie in Redis, and what somebody else does in between. What they do: tests/contract/store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_core.errors import ConversationNotFound, ItemNotFound, SessionLocked, StaleFence, VersionMismatch
from antiphon_core.ports.store import Fence
from antiphon_store.backends.base import Write
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.testing.conversations import array, names_in, new_id
from antiphon_store.testing.subject import draft, turn_in
from tests.service.antiphon_store.backends.redis.test_idempotency import changes
from tests.service.antiphon_store.backends.redis.test_turns import converse, interfere
from tests.support.redis_servers import backend_at, shared_cluster

HOUR_MS = 3600 * 1000


def founding(conversation_id: str, *names: str, incarnation: str = "i", ttl_ms: int | None = None) -> Founding:
    first = Addition(array(*names), digest="d", salt="first") if names else None
    return Founding(conversation_id, b"{}", "origin", incarnation, first, ttl_ms)


def addition(*names: str, fence: Fence | None = None) -> Addition:
    return Addition(array(*names), digest="d", salt=",".join(names), fence=fence)


def keys_of(server: redis.Redis, tenant: str) -> list[str]:
    return sorted(server.scan_iter(f"antiphon:{{{tenant}*", count=1000))


@pytest.fixture
async def spread(clock: ManualClock) -> AsyncIterator[RedisBackend]:
    """Where nothing is swept."""
    backend = backend_at(f"{shared_cluster().url}?partition=tree", clock=clock)
    await backend.open()
    yield backend
    await backend.close()


async def test_it_is_a_key_beside_its_session(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    conversation_id = new_id()
    await backend.create_conversation(tenant, founding(conversation_id, ttl_ms=HOUR_MS))
    root = f"antiphon:{{{tenant}}}:{conversation_id[5:21]}"
    ends = f"antiphon:{{{tenant}}}::ends"
    assert keys_of(server, tenant) == sorted([ends, f"{root}:conversation:{conversation_id}"])
    assert server.zrange(ends, 0, -1) == [f"c{conversation_id}"]


async def test_only_its_session_stays_of_one_that_was_removed(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    conversation_id = new_id()
    await backend.create_conversation(tenant, founding(conversation_id, "a", "b", ttl_ms=HOUR_MS))
    await backend.add_items(tenant, conversation_id, addition("c"))
    await backend.remove_item(tenant, conversation_id, "a")
    await backend.remove_conversation(tenant, conversation_id)
    root = f"antiphon:{{{tenant}}}:{conversation_id[5:21]}"
    assert keys_of(server, tenant) == [f"{root}:session:{conversation_id}"]


async def test_what_was_added_lives_as_long_as_the_conversation(
    backend: RedisBackend, tenant: str, clock: ManualClock
) -> None:
    conversation_id = new_id()
    await backend.create_conversation(tenant, founding(conversation_id, "a", ttl_ms=HOUR_MS))
    clock.advance(1800)
    await backend.add_items(tenant, conversation_id, addition("b"))
    clock.advance(1799)
    assert names_in((await backend.begin_turn(tenant, turn_in(conversation_id))).history.items) == ["a", "b"]
    clock.advance(1)
    assert (await backend.describe_session(tenant, conversation_id)).head_id is None


async def test_a_repetition_is_written_again(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    """At durability `quorum` an answer waits for the replicas only if its script wrote."""
    conversation_id = new_id()
    for repeat in (
        lambda: backend.create_conversation(tenant, founding(conversation_id, "a")),
        lambda: backend.update_conversation(tenant, conversation_id, b'{"k":"v"}', None),
        lambda: backend.add_items(tenant, conversation_id, addition("b")),
        lambda: backend.remove_item(tenant, conversation_id, "a"),
    ):
        await repeat()
        before = changes(server)
        await repeat()
        assert changes(server) > before


async def test_an_update_is_a_repetition_only_of_the_version_before(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant)
    for version in (1, 2):
        await backend.update_conversation(tenant, conversation_id, b'{"k":"%d"}' % version, version)
    again = await backend.update_conversation(tenant, conversation_id, b'{"k":"2"}', 2)
    assert again.version == 3
    for version in (1, 4):
        with pytest.raises(VersionMismatch):
            await backend.update_conversation(tenant, conversation_id, b'{"k":"2"}', version)


async def test_an_addition_is_to_the_conversation_that_there_is(backend: RedisBackend, tenant: str) -> None:
    """Made anew under its id in between, it is another: the addition's node has another id there."""
    conversation_id = await converse(backend, tenant, "a")

    async def make_anew() -> None:
        await backend.remove_conversation(tenant, conversation_id)
        await backend.create_conversation(tenant, founding(conversation_id, "n", incarnation="another"))

    interfere(backend, scripts.FETCH_CONVERSATION, make_anew, 1)
    assert await backend.add_items(tenant, conversation_id, addition("b")) == array("b")
    assert names_in(await backend.conversation_items(tenant, conversation_id)) == ["n", "b"]
    interfere(backend, scripts.FETCH_CONVERSATION, lambda: backend.remove_conversation(tenant, conversation_id), 1)
    with pytest.raises(ConversationNotFound):
        await backend.add_items(tenant, conversation_id, addition("c"))


async def test_a_conversation_that_is_always_another_is_locked(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, "a")

    async def make_anew() -> None:
        await backend.remove_conversation(tenant, conversation_id)
        await backend.create_conversation(tenant, founding(conversation_id, incarnation=draft().id))

    interfere(backend, scripts.FETCH_CONVERSATION, make_anew, 99)
    with pytest.raises(SessionLocked):
        await backend.add_items(tenant, conversation_id, addition("b"))
    assert await backend.conversation_items(tenant, conversation_id) == b"[]"


async def test_an_item_is_taken_out_of_the_context_that_there_is(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, "a", "b")
    interfere(backend, scripts.REMOVE_ITEM, lambda: backend.add_items(tenant, conversation_id, addition("c")), 1)
    await backend.remove_item(tenant, conversation_id, "a")
    assert names_in(await backend.conversation_items(tenant, conversation_id)) == ["b", "c"]

    async def make_anew() -> None:
        await backend.remove_conversation(tenant, conversation_id)
        await backend.create_conversation(tenant, founding(conversation_id, "n", incarnation="another"))

    interfere(backend, scripts.REMOVE_ITEM, make_anew, 1)
    with pytest.raises(ItemNotFound):
        await backend.remove_item(tenant, conversation_id, "b")
    await backend.add_items(tenant, conversation_id, addition("b"))
    assert names_in(await backend.conversation_items(tenant, conversation_id)) == ["n", "b"]


async def test_a_context_that_always_changes_is_locked(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant, "a")
    numbers = iter(range(99))
    interfere(
        backend,
        scripts.REMOVE_ITEM,
        lambda: backend.add_items(tenant, conversation_id, addition(f"i{next(numbers)}")),
        99,
    )
    with pytest.raises(SessionLocked):
        await backend.remove_item(tenant, conversation_id, "a")
    assert "a" in names_in(await backend.conversation_items(tenant, conversation_id))


async def test_a_fence_is_of_its_session(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant)
    with pytest.raises(StaleFence) as caught:
        await backend.add_items(tenant, conversation_id, addition("a", fence=Fence(conversation_id, 7)))
    assert caught.value.facts["token"] == "7"


async def test_a_head_of_a_turn_is_kept_by_what_was_added_behind_it(backend: RedisBackend, tenant: str) -> None:
    conversation_id = await converse(backend, tenant)
    start = await backend.begin_turn(tenant, turn_in(conversation_id))
    assert start.lease is not None
    record = draft(tag=conversation_id, session_id=conversation_id)
    await backend.commit_turn(tenant, Write(record), start.lease.fence)
    await backend.add_items(tenant, conversation_id, addition("a"))
    history = (await backend.begin_turn(tenant, turn_in(conversation_id))).history
    assert (history.depth, names_in(history.items)[-1]) == (2, "a")


@pytest.mark.parametrize("is_reclaimed", [False, True])
async def test_one_that_expired_is_ended_before_it_is_made_anew_also_where_nothing_is_swept(
    spread: RedisBackend, tenant: str, clock: ManualClock, is_reclaimed: bool
) -> None:
    """There the server gives the conversation's key back by itself; its head and removed items must not come back."""
    conversation_id = new_id()
    await spread.create_conversation(tenant, founding(conversation_id, ttl_ms=HOUR_MS))
    start = await spread.begin_turn(tenant, turn_in(conversation_id))
    assert start.lease is not None
    record = draft(tag=conversation_id, session_id=conversation_id)
    await spread.commit_turn(tenant, Write(record), start.lease.fence)
    gone = names_in(record.input_items)[0]
    await spread.remove_item(tenant, conversation_id, gone)
    key = f"antiphon:{{{tenant}:{conversation_id[5:21]}}}:conversation:{conversation_id}"
    with redis.RedisCluster.from_url(f"redis://{shared_cluster().url.partition('//')[2].partition(',')[0]}") as client:
        assert HOUR_MS < client.pttl(key) <= 2 * HOUR_MS
        clock.advance(3 * 3600)
        if is_reclaimed:
            client.delete(key)
    with pytest.raises(ConversationNotFound):
        await spread.fetch_conversation(tenant, conversation_id)
    fresh = founding(conversation_id, incarnation="another", ttl_ms=HOUR_MS)
    await spread.create_conversation(tenant, fresh)
    assert await spread.conversation_items(tenant, conversation_id) == b"[]"
    await spread.add_items(tenant, conversation_id, addition(gone))
    assert names_in(await spread.conversation_items(tenant, conversation_id)) == [gone]
    assert await spread.create_conversation(tenant, fresh) == await spread.fetch_conversation(tenant, conversation_id)


async def test_one_that_was_removed_is_not_ended_once_more(
    spread: RedisBackend, tenant: str, clock: ManualClock
) -> None:
    """What the session was used for since then is the context of the next."""
    conversation_id = new_id()
    await spread.create_conversation(tenant, founding(conversation_id, "a", ttl_ms=HOUR_MS))
    await spread.remove_conversation(tenant, conversation_id)
    clock.advance(2 * 3600)
    start = await spread.begin_turn(tenant, turn_in(conversation_id))
    assert start.lease is not None
    record = draft(tag=conversation_id, session_id=conversation_id)
    await spread.commit_turn(tenant, Write(record), start.lease.fence)
    await spread.create_conversation(tenant, founding(conversation_id, incarnation="another"))
    listed = names_in(await spread.conversation_items(tenant, conversation_id))
    assert listed == names_in(record.input_items) + names_in(record.output_items)
