from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import AlreadyExists, ChainTooLong, IdempotencyMismatch, VersionMismatch
from antiphon_core.ids import is_response_id, tree_tag
from antiphon_core.ports.store import History
from antiphon_store.backends import conversations
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.testing.conversations import array, names_in, new_id

FOUNDING = Founding(new_id(), b"{}", origin="o", incarnation="i", ttl_ms=10)
STORED = conversations.founded(FOUNDING, 100)
ADDITION = Addition(array("a"), digest="d", salt="s")


def test_a_conversation_expires_at_the_end_of_its_lifetime() -> None:
    assert not STORED.is_expired(109)
    assert STORED.is_expired(110)
    assert not conversations.founded(replace(FOUNDING, ttl_ms=None), 100).is_expired(2**62)


def test_another_origin_is_refused() -> None:
    conversations.require_same_origin(STORED, replace(FOUNDING, incarnation="later"))
    with pytest.raises(AlreadyExists):
        conversations.require_same_origin(STORED, replace(FOUNDING, origin="other"))


def test_metadata_that_is_there_already_is_no_change() -> None:
    revised = conversations.revised(STORED, b'{"a":"1"}', 1)
    assert revised.conversation.version == 2
    for expected in (None, 1, 2):
        assert conversations.revised(revised, b'{"a":"1"}', expected) is revised
    for expected in (3, 5):
        with pytest.raises(VersionMismatch):
            conversations.revised(revised, b'{"a":"1"}', expected)


def test_the_same_addition_has_the_same_node_and_others_have_others() -> None:
    node_id = conversations.node_id(STORED, ADDITION)
    assert is_response_id(node_id)
    assert tree_tag(node_id) == tree_tag(STORED.conversation.id)
    assert conversations.node_id(STORED, replace(ADDITION, items=b"[]")) == node_id
    assert conversations.node_id(STORED, replace(ADDITION, salt="t")) != node_id
    assert conversations.node_id(replace(STORED, incarnation="j"), ADDITION) != node_id


def test_a_node_lives_as_long_as_its_conversation() -> None:
    write = conversations.write_of(STORED, ADDITION, parent_id=None, now_ms=104)
    assert write.ttl_ms == 6
    endless = replace(STORED, expires_at_ms=None)
    assert conversations.write_of(endless, ADDITION, parent_id=None, now_ms=104).ttl_ms is None


def test_an_addition_that_was_made_is_answered_or_refused() -> None:
    made = conversations.write_of(STORED, ADDITION, parent_id=None, now_ms=100).record
    assert conversations.answer_again(made, ADDITION) == ADDITION.items
    with pytest.raises(AlreadyExists):
        conversations.answer_again(made, replace(ADDITION, digest="other"))
    with pytest.raises(IdempotencyMismatch):
        conversations.answer_again(made, replace(ADDITION, digest="other", idempotency_key="k"))


def test_without_removed_items_history_stays_the_very_bytes() -> None:
    odd = b'[ {"id" : "a"} ]'
    assert conversations.without(odd, ()) is odd
    assert names_in(conversations.without(array("a", "b", "c"), {"b", "z"})) == ["a", "c"]


def test_the_bound_of_a_history_is_for_what_is_left() -> None:
    seen: list[int] = []

    def read(bounds: ChainBounds) -> History:
        seen.append(bounds.max_bytes)
        return History(array("a", "b"), 1, "head")

    left = len(array("a"))
    history = conversations.read_context({"b"}, ChainBounds("c", 1, left), read)
    assert (history.items, history.head_id) == (array("a"), "head")
    with pytest.raises(ChainTooLong):
        conversations.read_context({"b"}, ChainBounds("c", 1, left - 1), read)
    conversations.read_context((), ChainBounds("c", 1, 7), read)
    assert seen[0] > left
    assert seen[-1] == 7
