"""Conversations: metadata, and one history of the items of turns and of added items."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    ConversationNotFound,
    IdempotencyMismatch,
    InvalidRequest,
    ItemNotFound,
    ResponseNotFound,
    SessionLocked,
    StaleFence,
    VersionMismatch,
)
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.conversations import ADDED_ITEMS, Conversation, ConversationStore
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Fence, Order, Precondition, Record, ResponseStore, Status, TurnCommit
from antiphon_store.testing.lineage_subject import peer_lineage
from antiphon_store.testing.races import race
from antiphon_store.testing.subject import Subject, draft, turn_in

TTL_MS = 60_000
LEASE_MS = 500
ROUNDS = 10


def talks_of(store: ResponseStore) -> ConversationStore:
    return cast("ConversationStore", store)


def new_id() -> str:
    return new_conversation_id(RandomIds())


def item(name: str) -> dict[str, Any]:
    return {"id": name, "type": "message", "role": "user", "content": name}


def array(*names: str) -> bytes:
    return dumps([item(name) for name in names])


def names_in(items: bytes) -> list[str]:
    return [each["id"] for each in loads(items)]


async def create(subject: Subject, *names: str, **options: Any) -> Conversation:
    return await talks_of(subject.store).create_conversation(subject.tenant, items=array(*names), **options)


async def add(subject: Subject, conversation_id: str, *names: str, **options: Any) -> bytes:
    return await talks_of(subject.store).add_conversation_items(
        subject.tenant, conversation_id, array(*names), **options
    )


async def context(subject: Subject, conversation_id: str) -> list[str]:
    """The ids of the items in the history of the next turn, which must be the listed ones."""
    page = await talks_of(subject.peer).list_conversation_items(
        subject.tenant, conversation_id, limit=100, order=Order.ASCENDING
    )
    history, lease = await subject.begin_in(conversation_id)
    await subject.store.release_session(subject.tenant, lease.fence)
    assert names_in(history.items) == names_in(page.items)
    return names_in(page.items)


async def turn(subject: Subject, conversation_id: str, **options: Any) -> Record:
    """Begins and commits a turn after the head."""
    history, lease = await subject.begin_in(conversation_id)
    record = draft(tag=conversation_id, parent_id=history.head_id, session_id=conversation_id)
    await subject.store.commit_turn(subject.tenant, TurnCommit(record, lease.fence, **options))
    return record


def items_of(record: Record) -> list[str]:
    return names_in(record.input_items) + names_in(record.output_items)


class ConversationSuite:
    async def test_a_created_conversation_is_read(self, subject: Subject) -> None:
        made = await create(subject, metadata=b'{ "topic" : "demo" }')
        assert made.id.startswith("conv_")
        assert (loads(made.metadata), made.version) == ({"topic": "demo"}, 1)
        assert await talks_of(subject.peer).get_conversation(subject.tenant, made.id) == made
        assert await context(subject, made.id) == []

    async def test_a_repeated_creation_changes_nothing(self, subject: Subject) -> None:
        chosen = new_id()
        made = await create(subject, "a", conversation_id=chosen)
        await subject.elapse(5)
        assert await create(subject, "a", conversation_id=chosen) == made
        assert await context(subject, chosen) == ["a"]
        with pytest.raises(AlreadyExists):
            await create(subject, "b", conversation_id=chosen)
        with pytest.raises(AlreadyExists):
            await create(subject, "a", conversation_id=chosen, metadata=b'{"other":"1"}')

    async def test_an_update_of_the_expected_version_replaces_the_metadata(self, subject: Subject) -> None:
        store, made = talks_of(subject.store), await create(subject, metadata=b'{"a":"1"}')
        second = await store.update_conversation(subject.tenant, made.id, b'{"b":"2"}')
        assert (second.metadata, second.version) == (b'{"b":"2"}', 2)
        third = await store.update_conversation(subject.tenant, made.id, b"{}", expected_version=2)
        assert await store.update_conversation(subject.tenant, made.id, b"{}", expected_version=2) == third
        with pytest.raises(VersionMismatch) as caught:
            await store.update_conversation(subject.tenant, made.id, b'{"c":"3"}', expected_version=2)
        assert (caught.value.facts["expected"], caught.value.facts["actual"]) == ("2", "3")
        assert await store.get_conversation(subject.tenant, made.id) == third

    async def test_a_deleted_conversation_is_gone_and_its_responses_are_kept(self, subject: Subject) -> None:
        made = await create(subject, "a")
        record = await turn(subject, made.id)
        lease = await subject.store.acquire_session(subject.tenant, made.id, holder="h")
        await subject.store.release_session(subject.tenant, lease.fence)
        await talks_of(subject.store).delete_conversation(subject.tenant, made.id)
        for attempt in calls(made.id).values():
            with pytest.raises(ConversationNotFound):
                await attempt(talks_of(subject.peer), subject.tenant)
        session = await subject.store.describe_session(subject.tenant, made.id)
        assert (session.head_id, session.lease, session.last_fence) == (None, None, lease.fence.token)
        assert (await subject.get(record)).id == record.id
        assert names_in(await subject.begin_after(record)) == ["a", *items_of(record)]

    async def test_a_conversation_with_a_running_turn_is_not_deleted(self, subject: Subject) -> None:
        made = await create(subject, "a")
        _history, lease = await subject.begin_in(made.id)
        for way in (subject.store, subject.peer):
            with pytest.raises(SessionLocked) as caught:
                await talks_of(way).delete_conversation(subject.tenant, made.id)
            assert (caught.value.field, caught.value.code) == ("conversation", "conversation_locked")
        assert (await subject.store.describe_session(subject.tenant, made.id)).lease == lease
        head_id = (await subject.store.describe_session(subject.tenant, made.id)).head_id
        record = draft(tag=made.id, session_id=made.id, parent_id=head_id)
        await subject.store.commit_turn(subject.tenant, TurnCommit(record, lease.fence))
        assert await context(subject, made.id) == ["a", *items_of(record)]
        await talks_of(subject.store).delete_conversation(subject.tenant, made.id)
        with pytest.raises(ConversationNotFound):
            await talks_of(subject.peer).get_conversation(subject.tenant, made.id)

    async def test_a_commit_after_the_deletion_of_its_conversation_is_rejected(self, subject: Subject) -> None:
        made = await create(subject)
        _history, lease = await subject.begin_in(made.id, lease_ttl_ms=LEASE_MS)
        await subject.elapse(LEASE_MS)
        await talks_of(subject.store).delete_conversation(subject.tenant, made.id)
        record = draft(tag=made.id, session_id=made.id)
        with pytest.raises(StaleFence):
            await subject.store.commit_turn(subject.tenant, TurnCommit(record, lease.fence))
        assert (await subject.store.describe_session(subject.tenant, made.id)).head_id is None

    async def test_a_concurrent_deletion_never_rejects_a_commit(self, subject: Subject) -> None:
        for _ in range(ROUNDS):
            made = await create(subject)
            _history, lease = await subject.begin_in(made.id)
            commit = TurnCommit(draft(tag=made.id, session_id=made.id), lease.fence)
            _done, errors = await race(
                subject.store.commit_turn(subject.tenant, commit),
                talks_of(subject.peer).delete_conversation(subject.tenant, made.id),
            )
            assert all(isinstance(error, SessionLocked) for error in errors)  # the turn's commit is never refused
            assert (await subject.get(commit.record)).id == commit.record.id
            head_id = (await subject.store.describe_session(subject.tenant, made.id)).head_id
            assert head_id == (commit.record.id if errors else None)

    async def test_a_deleted_conversation_id_can_be_created_again_and_is_empty(self, subject: Subject) -> None:
        chosen = new_id()
        await create(subject, "a", conversation_id=chosen)
        await add(subject, chosen, "b")
        await talks_of(subject.store).delete_conversation_item(subject.tenant, chosen, "a")
        await talks_of(subject.store).delete_conversation(subject.tenant, chosen)
        await create(subject, conversation_id=chosen)
        assert await context(subject, chosen) == []
        await add(subject, chosen, "b")
        await add(subject, chosen, "a")
        assert await context(subject, chosen) == ["b", "a"]

    async def test_a_conversation_expires(self, subject: Subject) -> None:
        chosen = new_id()
        await create(subject, "a", conversation_id=chosen, ttl_ms=TTL_MS)
        await add(subject, chosen, "b")
        await subject.elapse(TTL_MS - 1)
        assert await context(subject, chosen) == ["a", "b"]
        await subject.elapse(1)
        for attempt in calls(chosen).values():
            with pytest.raises(ConversationNotFound):
                await attempt(talks_of(subject.store), subject.tenant)
        await create(subject, "c", conversation_id=chosen)
        assert await context(subject, chosen) == ["c"]

    async def test_a_conversation_of_another_tenant_is_not_found(self, subject: Subject) -> None:
        made = await create(subject, "a")
        for attempt in calls(made.id).values():
            with pytest.raises(ConversationNotFound):
                await attempt(talks_of(subject.store), subject.tenant + "-other")
        assert await context(subject, made.id) == ["a"]

    async def test_one_of_two_concurrent_creations_succeeds(self, subject: Subject) -> None:
        for _ in range(ROUNDS):
            chosen = new_id()
            made, errors = await race(
                talks_of(subject.store).create_conversation(subject.tenant, conversation_id=chosen, items=array("a")),
                talks_of(subject.peer).create_conversation(subject.tenant, conversation_id=chosen, items=array("b")),
            )
            assert (len(made), len(errors)) == (1, 1)
            assert isinstance(errors[0], AlreadyExists)
            assert len(await context(subject, chosen)) == 1


class ConversationItemSuite:
    async def test_the_history_joins_turns_and_added_items_in_order(self, subject: Subject) -> None:
        made = await create(subject, "seed")
        first = await turn(subject, made.id)
        stored = await add(subject, made.id, "a", "b")
        assert stored == array("a", "b")
        second = await turn(subject, made.id)
        expected = ["seed", *items_of(first), "a", "b", *items_of(second)]
        assert await context(subject, made.id) == expected
        assert names_in(await subject.begin_after(second)) == expected

    async def test_a_lease_holder_can_write_its_record_behind_added_items(self, subject: Subject) -> None:
        made = await create(subject, "a")
        history, lease = await subject.begin_in(made.id)
        record = draft(tag=made.id, parent_id=history.head_id, session_id=made.id, status=Status.QUEUED)
        with pytest.raises(ResponseNotFound):
            await subject.store.commit_turn(subject.tenant, TurnCommit(record))
        new = Precondition(version=0, fence=lease.fence)
        for _ in range(2):
            await subject.store.commit_turn(subject.tenant, TurnCommit(record, precondition=new))
        session = await subject.store.describe_session(subject.tenant, made.id)
        assert (session.head_id, session.lease) == (history.head_id, lease)
        ended = replace(record, status=Status.COMPLETED)
        commit = TurnCommit(ended, lease.fence, precondition=Precondition(statuses=frozenset({Status.QUEUED})))
        await subject.store.commit_turn(subject.tenant, commit)
        assert await context(subject, made.id) == ["a", *items_of(ended)]

    async def test_added_items_are_not_readable_as_a_response(self, subject: Subject) -> None:
        made = await create(subject)
        await add(subject, made.id, "a")
        head_id = (await subject.store.describe_session(subject.tenant, made.id)).head_id
        assert head_id is not None
        with pytest.raises(ResponseNotFound):
            await subject.store.get(subject.tenant, head_id)
        made_in_it = await turn(subject, made.id)
        added, last = await subject.peer.chain(subject.tenant, made_in_it.id)
        assert (added.id, loads(added.body)["object"], last.id) == (head_id, ADDED_ITEMS, made_in_it.id)
        readable = await peer_lineage(subject).batch_get(subject.tenant, [added.id, last.id])
        assert [record.id for record in readable] == [made_in_it.id]

    async def test_a_fork_becomes_a_conversation_with_its_history(self, subject: Subject) -> None:
        made = await create(subject, "a")
        record = await turn(subject, made.id)
        forked = await peer_lineage(subject).fork(subject.tenant, ForkSource(session_id=made.id))
        await create(subject, conversation_id=forked.session_id, metadata=b'{"k":"v"}')
        assert await context(subject, forked.session_id) == ["a", *items_of(record)]
        await add(subject, forked.session_id, "b")
        assert await context(subject, forked.session_id) == ["a", *items_of(record), "b"]
        assert await context(subject, made.id) == ["a", *items_of(record)]

    async def test_an_added_item_without_id_gets_a_new_id(self, subject: Subject) -> None:
        made, store = await create(subject), talks_of(subject.store)
        given = dumps([{"role": "user", "content": "x"}, {"type": "function_call", "name": "f"}, item("own")])
        stored = await store.add_conversation_items(subject.tenant, made.id, given)
        first, second, third = names_in(stored)
        assert (first[:4], second[:3], third) == ("msg_", "fc_", "own")
        assert await context(subject, made.id) == [first, second, third]
        again = await store.add_conversation_items(subject.tenant, made.id, given)
        assert not set(names_in(again)[:2]) & {first, second}

    async def test_items_added_again_by_id_are_stored_once(self, subject: Subject) -> None:
        made = await create(subject)
        stored = await add(subject, made.id, "a", "b")
        await add(subject, made.id, "c")
        assert await add(subject, made.id, "a", "b") == stored
        assert await context(subject, made.id) == ["a", "b", "c"]
        with pytest.raises(AlreadyExists) as caught:
            await talks_of(subject.store).add_conversation_items(
                subject.tenant, made.id, array("a", "b").replace(b"user", b"system")
            )
        assert caught.value.facts["id"] == "a"

    async def test_items_added_again_under_an_idempotency_key_are_stored_once(self, subject: Subject) -> None:
        made, store = await create(subject), talks_of(subject.store)
        nameless = b'[{"role":"user","content":"x"}]'
        stored = await store.add_conversation_items(subject.tenant, made.id, nameless, idempotency_key="k")
        for way in (store, talks_of(subject.peer)):
            assert await way.add_conversation_items(subject.tenant, made.id, nameless, idempotency_key="k") == stored
        assert await context(subject, made.id) == names_in(stored)
        with pytest.raises(IdempotencyMismatch):
            await add(subject, made.id, "other", idempotency_key="k")
        await add(subject, (await create(subject)).id, "other", idempotency_key="k")

    async def test_a_turn_locks_its_conversation(self, subject: Subject) -> None:
        made = await create(subject)
        _history, lease = await subject.begin_in(made.id)
        with pytest.raises(SessionLocked):
            await add(subject, made.id, "a")
        await add(subject, made.id, "b", fence=lease.fence)
        session = await subject.store.describe_session(subject.tenant, made.id)
        assert session.lease is not None
        with pytest.raises(StaleFence):
            await add(subject, made.id, "c", fence=Fence(made.id, lease.fence.token + 1))
        await subject.store.release_session(subject.tenant, lease.fence)
        with pytest.raises(StaleFence):
            await add(subject, made.id, "c", fence=lease.fence)
        assert await add(subject, made.id, "b", fence=lease.fence) == array("b")
        assert await context(subject, made.id) == ["b"]

    async def test_a_rejected_creation_leaves_nothing(self, subject: Subject) -> None:
        chosen = new_id()
        await subject.begin_in(chosen)
        with pytest.raises(SessionLocked):
            await create(subject, "a", conversation_id=chosen)
        with pytest.raises(ConversationNotFound):
            await talks_of(subject.store).get_conversation(subject.tenant, chosen)

    async def test_item_pages_continue_after_an_item_id(self, subject: Subject) -> None:
        made, store = await create(subject, "a", "b", "c"), talks_of(subject.store)
        page = await store.list_conversation_items(subject.tenant, made.id, limit=2)
        assert (names_in(page.items), page.first_id, page.last_id, page.has_more) == (["c", "b"], "c", "b", True)
        rest = await store.list_conversation_items(subject.tenant, made.id, after="b")
        assert (names_in(rest.items), rest.has_more) == (["a"], False)
        with pytest.raises(InvalidRequest) as caught:
            await store.list_conversation_items(subject.tenant, made.id, after="z")
        assert caught.value.field == "after"

    @pytest.mark.parametrize("order", list(Order))
    async def test_item_pages_continue_after_an_item_that_was_removed(self, subject: Subject, order: Order) -> None:
        made, store = await create(subject, *"abcdefg"), talks_of(subject.store)
        await store.delete_conversation_item(subject.tenant, made.id, "d")
        seen: list[str] = []
        after, has_more = None, True
        while has_more:
            page = await store.list_conversation_items(subject.tenant, made.id, after=after, limit=2, order=order)
            for name in names_in(page.items):
                await store.delete_conversation_item(subject.tenant, made.id, name)
                seen.append(name)
            after, has_more = page.last_id, page.has_more
        assert seen == list("abcefg" if order is Order.ASCENDING else "gfecba")
        assert await context(subject, made.id) == []

    async def test_an_item_is_read_by_its_id(self, subject: Subject) -> None:
        made, store = await create(subject, "a"), talks_of(subject.peer)
        record = await turn(subject, made.id)
        assert loads(await store.get_conversation_item(subject.tenant, made.id, "a")) == item("a")
        made_by_turn = items_of(record)[-1]
        assert loads(await store.get_conversation_item(subject.tenant, made.id, made_by_turn))["id"] == made_by_turn
        with pytest.raises(ItemNotFound):
            await store.get_conversation_item(subject.tenant, made.id, "z")

    @pytest.mark.parametrize("letter", ["x", "é", "😀"])
    async def test_a_very_long_item_id_is_answered_with_not_found(self, subject: Subject, letter: str) -> None:
        made = await create(subject, "a")
        with pytest.raises(ItemNotFound, match=r"^Item with id '.* not found\.$"):
            await talks_of(subject.store).get_conversation_item(subject.tenant, made.id, letter * 20_000)

    async def test_a_removed_item_is_removed_from_this_context_only(self, subject: Subject) -> None:
        made, store = await create(subject, "a", "b"), talks_of(subject.store)
        record = await turn(subject, made.id)
        for _ in range(2):
            assert await store.delete_conversation_item(subject.tenant, made.id, "a") == made
        gone = items_of(record)[0]
        await store.delete_conversation_item(subject.tenant, made.id, gone)
        assert await context(subject, made.id) == ["b", *items_of(record)[1:]]
        assert names_in(await subject.begin_after(record)) == ["a", "b", *items_of(record)]
        with pytest.raises(ItemNotFound):
            await store.get_conversation_item(subject.tenant, made.id, "a")
        with pytest.raises(ItemNotFound):
            await store.delete_conversation_item(subject.tenant, made.id, "z")

    async def test_removed_items_do_not_count_towards_the_limit(self, subject: Subject) -> None:
        made = await create(subject, "a", "x" * 1000)
        await talks_of(subject.store).delete_conversation_item(subject.tenant, made.id, "x" * 1000)
        history, _lease = await subject.begin_in(made.id, max_bytes=len(array("a")))
        assert history.items == array("a")

    async def test_concurrent_additions_to_a_conversation_are_all_kept(self, subject: Subject) -> None:
        made = await create(subject)
        ways = (talks_of(subject.store), talks_of(subject.peer))
        added, errors = await race(
            *(ways[n % 2].add_conversation_items(subject.tenant, made.id, array(f"i{n}")) for n in range(16))
        )
        assert not errors
        assert len(added) == 16
        assert sorted(await context(subject, made.id)) == sorted(f"i{n}" for n in range(16))

    async def test_concurrent_additions_under_one_key_are_stored_once(self, subject: Subject) -> None:
        for _ in range(ROUNDS):
            made = await create(subject)
            ways = (talks_of(subject.store), talks_of(subject.peer))
            nameless = b'[{"role":"user","content":"x"}]'
            added, errors = await race(
                *(
                    ways[n % 2].add_conversation_items(subject.tenant, made.id, nameless, idempotency_key="k")
                    for n in range(8)
                )
            )
            assert not errors
            assert len({bytes(each) for each in added}) == 1
            assert len(await context(subject, made.id)) == 1

    async def test_an_addition_racing_a_turn_is_stored_or_rejected_as_locked(self, subject: Subject) -> None:
        for _ in range(ROUNDS):
            made = await create(subject)
            _answers, errors = await race(
                talks_of(subject.store).add_conversation_items(subject.tenant, made.id, array("a")),
                subject.peer.begin_turn(subject.tenant, turn_in(made.id)),
            )
            listed = await talks_of(subject.store).list_conversation_items(subject.tenant, made.id)
            assert names_in(listed.items) == ([] if errors else ["a"])
            assert all(isinstance(error, SessionLocked) for error in errors)


Call = Callable[[ConversationStore, str], Awaitable[object]]


def calls(conversation_id: str) -> dict[str, Call]:
    """Every call that needs an existing conversation."""
    return {
        "get": lambda store, tenant: store.get_conversation(tenant, conversation_id),
        "update": lambda store, tenant: store.update_conversation(tenant, conversation_id, b"{}"),
        "delete": lambda store, tenant: store.delete_conversation(tenant, conversation_id),
        "add": lambda store, tenant: store.add_conversation_items(tenant, conversation_id, array("q")),
        "list": lambda store, tenant: store.list_conversation_items(tenant, conversation_id),
        "get item": lambda store, tenant: store.get_conversation_item(tenant, conversation_id, "a"),
        "delete item": lambda store, tenant: store.delete_conversation_item(tenant, conversation_id, "a"),
    }
