from __future__ import annotations

import pytest
from redis.crc import key_slot

from antiphon_core.errors import InvalidRequest
from antiphon_store.backends.redis.keys import Keyspace, Partition
from antiphon_store.testing.subject import draft

TAG = "0123456789abcdef"
RESPONSE = f"resp_{TAG}{'0' * 32}"
CONVERSATION = f"conv_{TAG}{'1' * 32}"
SPREAD = Keyspace(clustered=True)


def slot(key: str) -> int:
    return int(key_slot(key.encode()))


def test_a_tree_and_its_conversation_share_a_slot() -> None:
    root = SPREAD.tree_root("acme", RESPONSE)
    session = SPREAD.session_key("acme", CONVERSATION)
    assert root == "antiphon:{acme:0123456789abcdef}"
    assert session == f"{root}:session:{CONVERSATION}"
    assert slot(root) == slot(session) == slot(f"{root}:meta")


def test_the_root_is_the_tag_between_what_stands_around_it() -> None:
    for partition in Partition:
        keys = Keyspace(partition)
        before, after = keys.around_tag("acme")
        assert keys.tree_root("acme", RESPONSE) == before + TAG + after


def test_a_tenant_is_one_slot_when_asked_for() -> None:
    keys = Keyspace(Partition.TENANT, clustered=True)
    names = [keys.tree_root("acme", draft().id) for _ in range(9)] + [keys.session_key("acme", "any")]
    assert len({slot(name) for name in names}) == 1
    keys.require_together(RESPONSE, "any", field="f")
    keys.require_turns("any", field="f")


def test_trees_are_spread_over_slots() -> None:
    assert len({slot(SPREAD.tree_root("acme", draft().id)) for _ in range(50)}) > 40


def test_no_tenant_can_forge_another() -> None:
    tenants = ["a", "a:b", "a}", "{a", "{", "}", "a%3A", "a:session", "%", "*"]
    roots = {Keyspace(partition).tree_root(tenant, RESPONSE) for tenant in tenants for partition in Partition}
    assert len(roots) == 2 * len(tenants)
    for tenant in tenants:
        root = SPREAD.tree_root(tenant, RESPONSE)
        assert (root.count("{"), root.count("}")) == (1, 1)


def test_what_one_atom_cannot_cover_is_refused() -> None:
    SPREAD.require_together(RESPONSE, CONVERSATION, field="f")
    SPREAD.require_turns(CONVERSATION, field="f")
    for response_id, session_id in ((RESPONSE, "chat-1"), (draft().id, CONVERSATION)):
        with pytest.raises(InvalidRequest, match="share a tree tag") as caught:
            SPREAD.require_together(response_id, session_id, field="fence.session_id")
        assert caught.value.field == "fence.session_id"
    with pytest.raises(InvalidRequest, match="share a tree tag"):
        SPREAD.require_turns("chat-1", field="session_id")


def test_without_slots_any_session_goes_with_any_response() -> None:
    Keyspace().require_together(RESPONSE, "chat-1", field="f")
    Keyspace().require_turns("chat-1", field="f")
