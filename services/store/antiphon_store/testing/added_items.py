"""Items that a client added to a conversation are found by their ids while the conversation contains them."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

from antiphon_core.jsons import loads
from antiphon_core.ports.lineage import ForkSource
from antiphon_store.testing.conversations import TTL_MS, add, context, create, item, items_of, new_id, talks_of, turn
from antiphon_store.testing.lineage_subject import lineage, peer_lineage
from antiphon_store.testing.subject import Subject
from antiphon_store.testing.sweeping import sweep


async def find_ids(subject: Subject, *item_ids: str) -> list[str]:
    """The ids of the items that are found."""
    resolved = await lineage(subject).resolve_items(subject.tenant, item_ids)
    assert {each.id for each in resolved.items}.isdisjoint(resolved.missing_ids)
    for each in resolved.items:
        assert loads(each.item)["id"] == each.id
    return [each.id for each in resolved.items]


class AddedItemSuite:
    async def test_added_items_are_found_like_those_of_responses(self, subject: Subject) -> None:
        made = await create(subject, "first", "ü b%20 ")
        record = await turn(subject, made.id)
        await add(subject, made.id, "later")
        said = items_of(record)[0]
        resolved = await peer_lineage(subject).resolve_items(subject.tenant, ["later", said, "ü b%20 ", "no", "first"])
        assert [each.id for each in resolved.items] == ["later", said, "ü b%20 ", "first"]
        assert (loads(resolved.items[3].item), resolved.missing_ids) == (item("first"), ("no",))
        added, response = await subject.store.chain(subject.tenant, record.id)
        assert [each.response_id for each in resolved.items[1:]] == [response.id, added.id, added.id]

    async def test_a_removed_item_is_not_found(self, subject: Subject) -> None:
        made, odd = await create(subject, "a", "ü %41"), "ü %41"
        await talks_of(subject.store).delete_conversation_item(subject.tenant, made.id, odd)
        assert await find_ids(subject, "a", odd) == ["a"]
        await add(subject, made.id, odd, "b")  # a removed id stays removed from this conversation
        assert await find_ids(subject, "a", odd, "b") == ["a", "b"] == await context(subject, made.id)
        other = await create(subject, odd)
        assert await find_ids(subject, odd) == [odd]
        assert await context(subject, other.id) == [odd]

    async def test_added_items_of_a_deleted_conversation_are_not_found(self, subject: Subject) -> None:
        chosen = new_id()
        await create(subject, "a", conversation_id=chosen)
        record = await turn(subject, chosen)
        await add(subject, chosen, "b")
        await talks_of(subject.store).delete_conversation(subject.tenant, chosen)
        said = items_of(record)
        assert await find_ids(subject, "a", "b", *said) == said
        await create(subject, conversation_id=chosen)
        assert await find_ids(subject, "a", "b") == []
        await add(subject, chosen, "b")
        assert await find_ids(subject, "a", "b") == ["b"]

    async def test_added_items_are_found_until_the_conversation_expires(self, subject: Subject) -> None:
        chosen = new_id()
        await create(subject, "a", conversation_id=chosen, ttl_ms=TTL_MS)
        await add(subject, chosen, "b")
        await subject.elapse(TTL_MS - 1)
        assert await find_ids(subject, "a", "b") == ["a", "b"]
        await subject.elapse(1)
        assert await find_ids(subject, "a", "b") == []

    async def test_added_items_are_not_found_after_the_context_expired(self, subject: Subject) -> None:
        made = await create(subject, "a")
        await turn(subject, made.id, ttl_ms=TTL_MS)
        await subject.elapse(TTL_MS)
        assert await context(subject, made.id) == []
        assert await find_ids(subject, "a") == []
        while (await sweep(subject)).has_more:
            pass
        assert await find_ids(subject, "a") == []
        await add(subject, made.id, "b")
        assert await find_ids(subject, "a", "b") == ["b"] == await context(subject, made.id)

    async def test_added_items_are_found_on_every_branch(self, subject: Subject) -> None:
        made = await create(subject, "a")
        record = await turn(subject, made.id)
        fork = await lineage(subject).fork(subject.tenant, ForkSource(session_id=made.id))
        await create(subject, conversation_id=fork.session_id)
        for number in range(3):  # alternately: one session continues the branch, the other starts a new one
            await add(subject, fork.session_id, f"fork {number}")
            await add(subject, made.id, f"made {number}")
        names = [f"{where} {number}" for where in ("fork", "made") for number in range(3)]
        assert await find_ids(subject, "a", *names) == ["a", *names]
        await subject.delete(record)
        assert await find_ids(subject, "a", *items_of(record), *names) == ["a", *names]
        await talks_of(subject.store).delete_conversation(subject.tenant, fork.session_id)
        assert await find_ids(subject, *names) == names[3:]

    async def test_added_items_of_another_tenant_are_not_found(self, subject: Subject) -> None:
        await create(subject, "mine")
        assert await find_ids(replace(subject, tenant=subject.tenant + "-other"), "mine") == []
