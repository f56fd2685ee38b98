from __future__ import annotations

import pytest
from redis.crc import key_slot

from antiphon_core.errors import InvalidRequest, Unimplemented
from antiphon_store.backends.redis.keys import Keyspace, Partition
from antiphon_store.testing.subject import draft

TAG = "0123456789abcdef"
RESPONSE = f"resp_{TAG}{'0' * 32}"
CONVERSATION = f"conv_{TAG}{'1' * 32}"
SPREAD = Keyspace(Partition.TREE)


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


def test_a_tenant_is_one_slot() -> None:
    keys = Keyspace()
    names = [keys.tree_root("acme", draft().id) for _ in range(9)] + [keys.session_key("acme", "any")]
    names += [keys.made_key("acme", "any"), keys.tenant_root("acme", "Sweep")]
    assert len({slot(name) for name in names}) == 1
    assert len({slot(keys.tree_root(f"tenant-{number}", RESPONSE)) for number in range(50)}) > 40
    keys.require_together(RESPONSE, "any", field="f")
    keys.require_turns("any", field="f")


def test_what_a_tenant_spends_is_in_one_slot_wherever_the_rest_is() -> None:
    for keys in (Keyspace(), SPREAD):
        buckets, places = keys.spending_keys("acme")
        assert slot(buckets) == slot(places)
        assert buckets != keys.spending_keys("acme2")[0]
    assert slot(Keyspace().spending_keys("acme")[0]) == slot(Keyspace().tenant_root("acme", "Sweep"))


def test_the_root_of_a_tenant_is_that_of_the_tree_without_a_tag() -> None:
    assert Keyspace().tenant_root("acme", "Sweep") == "antiphon:{acme}:" == "".join(Keyspace().around_tag("acme"))


def test_no_session_has_the_keys_of_its_tenant() -> None:
    root = Keyspace().tenant_root("acme", "Sweep")
    for session_id in ("made", "ends", "-", "0" * 16):
        assert not Keyspace().session_key("acme", session_id).startswith(f"{root}:")


def test_what_lies_together_is_one_group() -> None:
    ids = [RESPONSE, draft().id, RESPONSE[:-1] + "1"]
    assert Keyspace().together(ids) == [ids]
    assert SPREAD.together(ids) == [[ids[0], ids[2]], [ids[1]]]


def test_a_list_lies_with_its_responses() -> None:
    assert Keyspace().made_key("acme", CONVERSATION) == f"antiphon:{{acme}}::made:{CONVERSATION}"
    assert SPREAD.made_key("acme", CONVERSATION) == f"{SPREAD.tree_root('acme', RESPONSE)}:made:{CONVERSATION}"


def test_what_needs_all_of_a_tenant_in_one_slot_is_refused_by_name() -> None:
    Keyspace().require_one_slot("ResolveItems")
    with pytest.raises(Unimplemented, match="Sweep on a Redis Cluster partitioned by tree"):
        SPREAD.tenant_root("acme", "Sweep")


def test_a_conversation_lies_with_its_session() -> None:
    for keys in (Keyspace(), SPREAD):
        conversation, removed, session = keys.conversation_keys("acme", CONVERSATION)
        root = keys.tree_root("acme", RESPONSE)
        assert (conversation, removed) == (f"{root}:conversation:{CONVERSATION}", f"{root}:removed:{CONVERSATION}")
        assert keys.context_keys("acme", CONVERSATION) == [session, removed]
        assert session == keys.session_key("acme", CONVERSATION)
    assert slot(Keyspace().context_keys("acme", "any")[1]) == slot(Keyspace().tree_root("acme", RESPONSE))


def test_an_idempotency_key_is_the_tenants() -> None:
    assert Keyspace().key_use("acme", "{x}:ü", "Put") == "antiphon:{acme}::key:{x}:ü"
    assert slot(Keyspace().key_use("acme", "{x}", "Put")) == slot(Keyspace().tree_root("acme", RESPONSE))
    with pytest.raises(Unimplemented, match="Put on a Redis Cluster"):
        SPREAD.key_use("acme", "x", "Put")


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


def test_what_a_fence_may_be_of_lies_with_its_response() -> None:
    for keys in (Keyspace(), SPREAD):
        root = keys.tree_root("acme", RESPONSE)
        assert keys.fence_keys("acme", RESPONSE) == [f"{root}:job:{RESPONSE}", f"{root}:session:{RESPONSE}"]
        names = [*keys.fence_keys("acme", CONVERSATION), *keys.fence_keys("acme", RESPONSE), root]
        assert len({slot(name) for name in names}) == 1
