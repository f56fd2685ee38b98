"""Conversations, case by case. `antiphon_store.testing.conversations` tests them through a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    ChainTooLong,
    ConversationNotFound,
    IdempotencyMismatch,
    ItemNotFound,
    SessionLocked,
    StaleFence,
    VersionMismatch,
)
from antiphon_core.ids import is_response_id, tree_tag
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import conversations
from antiphon_store.decisions.conversations import Addition
from antiphon_store.rows.model import Add, Chain, Condition, Grow, Index, Kind, Program, Row, Set
from antiphon_store.rows.view import View
from antiphon_store.testing.conversations import array, names_in, new_id
from antiphon_store.testing.subject import draft
from tests.support.rows import (
    NOW_MS,
    answered,
    chain_rows,
    decided,
    fields_of,
    guards_on,
    node,
    pins,
    row,
    shown,
    view_of,
)

ID = new_id()
ADDITION = Addition(array("a", "b"), digest="d", salt="s")
HEAD = draft(tag=ID)
STORED = row(metadata="{}", created=5, version=1, origin="o", incarnation="i", expires=NOW_MS + 10)
OVER = row(metadata="{}", created=5, version=1, origin="other", incarnation="h", expires=NOW_MS)
TALK, SESSION, HEAD_REF = (Kind.CONVERSATION, ID), (Kind.SESSION, ID), (Kind.NODE, HEAD.id)
LEASED = row(head=HEAD.id, fence=7, holder="a", lease_until=NOW_MS + 1)
FREE = row(head=HEAD.id, fence=7, holder="", lease_until=0)
ENDS = (Index.ENDS, "", f"conversation/{ID}")

create = partial(conversations.create, conversation_id=ID, metadata=b"{}", origin="o", incarnation="i", ttl_ms=10)
add = partial(conversations.add_items, conversation_id=ID, addition=ADDITION)


def grown(program: Program) -> Grow:
    (found,) = [each for each in program.changes if isinstance(each, Grow)]
    return found


def rows_with(node_id: str, made: Row | None = None, session: Row | None = FREE) -> dict[Any, Row | None]:
    return {TALK: STORED, SESSION: session, HEAD_REF: node(HEAD), (Kind.NODE, node_id): made}


def addition_node(addition: Addition = ADDITION, incarnation: str = "i") -> Grow:
    """The node that an addition to the conversation makes."""
    first = partial(create, first=addition, incarnation=incarnation, ttl_ms=None)
    return grown(decided(first, {TALK: None, SESSION: None}))


NODE_ID = addition_node().id


def test_a_new_conversation_is_listed_with_its_expiry() -> None:
    view = view_of({TALK: None, SESSION: None})
    assert create(view)(()) == Conversation(ID, b"{}", NOW_MS, 1)
    assert shown(view.program()) == [("put", *TALK), ("set", *SESSION), ("file", *ENDS)]
    assert fields_of(view.program(), Kind.CONVERSATION)["expires"] == NOW_MS + 10


def test_a_conversation_without_expiry_is_no_candidate_for_sweeping() -> None:
    program = decided(partial(create, ttl_ms=None), {TALK: None, SESSION: None})
    assert shown(program) == [("put", *TALK), ("set", *SESSION)]


@pytest.mark.parametrize(
    ("session", "fence"),
    [
        (None, NOW_MS),
        (row(fence=3, lease_until=0, stamp=1), NOW_MS),
        (row(fence=NOW_MS + 5, lease_until=0, stamp=1), NOW_MS + 5),  # the clock was set back
        (row(fence=3, holder="a", lease_until=NOW_MS + 1, stamp=1), 3),  # the running turn keeps its token
    ],
)
def test_a_new_conversation_continues_above_all_tokens_of_an_earlier_one(session: Row | None, fence: int) -> None:
    program = decided(create, {TALK: None, SESSION: session})
    assert fields_of(program, Kind.SESSION) == {"fence": fence, "is_over": False}


def test_a_repeated_creation_is_answered_and_a_different_one_is_rejected() -> None:
    again = partial(create, incarnation="later")
    assert answered(again, {TALK: STORED, SESSION: LEASED}).created_at_ms == 5
    with pytest.raises(AlreadyExists):
        decided(partial(create, origin="other"), {TALK: STORED, SESSION: None})


def test_creating_over_an_expired_conversation_releases_its_head_first() -> None:
    founding = partial(create, first=ADDITION)
    program = decided(founding, {TALK: OVER, SESSION: FREE, HEAD_REF: node(HEAD)})
    assert ("file", Index.ENDS, "", f"node/{HEAD.id}") in shown(program)
    assert grown(program).parent is None  # a new root
    assert _last_session_change(program)["head"] == grown(program).id


def test_creating_over_an_expired_conversation_with_a_running_turn_is_rejected() -> None:
    for founding in (create, partial(create, first=ADDITION)):
        with pytest.raises(SessionLocked):
            decided(founding, {TALK: OVER, SESSION: LEASED, HEAD_REF: node(HEAD)})


def _last_session_change(program: Program) -> Mapping[str, Any]:
    """The fields of the last change of a session."""
    return [each.fields for each in program.changes if isinstance(each, Set) and each.ref.kind is Kind.SESSION][-1]


def test_creating_over_a_used_session_keeps_its_context() -> None:
    founding = partial(create, first=ADDITION)
    rows = {TALK: None, SESSION: FREE, HEAD_REF: node(HEAD)}
    assert grown(decided(founding, rows)).parent == HEAD.id
    with pytest.raises(SessionLocked):
        decided(founding, {**rows, SESSION: LEASED})
    assert decided(create, {**rows, SESSION: LEASED}).changes  # a creation without items needs no lease


NOT_THERE = [None, row(expires=NOW_MS), row(expires=NOW_MS - 1)]


@pytest.mark.parametrize("there", NOT_THERE)
def test_a_missing_or_expired_conversation_is_not_found(there: Row | None) -> None:
    for decision in (
        partial(conversations.get, conversation_id=ID),
        partial(conversations.update, conversation_id=ID, metadata=b"{}", expected_version=None),
        partial(conversations.delete, conversation_id=ID),
        add,
        partial(conversations.read_items, conversation_id=ID),
        partial(conversations.delete_item, conversation_id=ID, item_id="a", is_there=True),
    ):
        with pytest.raises(ConversationNotFound):
            decided(decision, {TALK: there, SESSION: None})


UPDATES = [
    (b"{}", None, None),
    (b"{}", 1, None),
    (b"{}", 0, None),  # a retry after a lost answer
    (b'{"a":"b"}', None, {"metadata": '{"a":"b"}', "version": Add(1)}),
    (b'{"a":"b"}', 1, {"metadata": '{"a":"b"}', "version": Add(1)}),
]


@pytest.mark.parametrize(("metadata", "expected_version", "written"), UPDATES)
def test_an_update_with_the_stored_metadata_writes_nothing(
    metadata: bytes, expected_version: int | None, written: dict[str, Any] | None
) -> None:
    view = view_of({TALK: STORED})
    update = conversations.update(view, ID, metadata, expected_version)
    assert update(()).version == (1 if written is None else 2)
    if written is None:
        assert not view.has_effects
    else:
        assert fields_of(view.program(), Kind.CONVERSATION) == written


@pytest.mark.parametrize(("metadata", "expected"), [(b"{}", 2), (b"{}", 5), (b'{"a":"b"}', 0), (b'{"a":"b"}', 2)])
def test_an_update_with_a_wrong_expected_version_is_a_mismatch(metadata: bytes, expected: int) -> None:
    with pytest.raises(VersionMismatch):
        decided(
            partial(conversations.update, conversation_id=ID, metadata=metadata, expected_version=expected),
            {TALK: STORED},
        )


def test_deleting_a_conversation_releases_its_head_and_keeps_the_fence() -> None:
    remove = partial(conversations.delete, conversation_id=ID)
    program = decided(remove, {TALK: STORED, SESSION: FREE})
    assert shown(program) == [
        ("delete", *TALK),
        ("unfile", *ENDS),
        ("set", *SESSION),
        ("file", Index.ENDS, "", f"session/{ID}"),
        ("file", Index.ENDS, "", f"node/{HEAD.id}"),
    ]
    over = {"holder": "", "lease_until": 0, "head": None, "removed": None, "is_over": True}
    assert fields_of(program, Kind.SESSION) == over
    assert shown(decided(remove, {TALK: STORED, SESSION: None})) == [("delete", *TALK), ("unfile", *ENDS)]
    with pytest.raises(SessionLocked):
        decided(remove, {TALK: STORED, SESSION: LEASED})


def test_added_items_are_a_hidden_node_behind_the_head() -> None:
    program = decided(add, rows_with(NODE_ID))
    assert shown(program) == [
        ("grow", NODE_ID, HEAD.id),
        ("set", *SESSION),
        ("file", Index.FOREIGN, "a", NODE_ID),
        ("file", Index.FOREIGN, "b", NODE_ID),
        ("file", Index.ENDS, "", f"node/{NODE_ID}"),
    ]
    fields = grown(program).fields
    assert (fields["deleted"], fields["added"], fields["version"]) == (1, 1, 1)
    assert fields["expires"] == STORED.fields["expires"]  # the node expires with its conversation
    assert fields_of(program, Kind.SESSION) == {"head": NODE_ID}  # the lease stays as it is
    assert {TALK, SESSION} <= pins(program)


def test_the_node_id_of_an_addition_follows_from_digest_salt_and_incarnation() -> None:
    assert is_response_id(NODE_ID)
    assert tree_tag(NODE_ID) == tree_tag(ID)
    assert addition_node(replace(ADDITION, items=array("z"))).id == NODE_ID
    assert addition_node(replace(ADDITION, salt="t")).id != NODE_ID
    assert addition_node(incarnation="j").id != NODE_ID


def test_a_repeated_addition_is_answered_and_a_different_one_is_rejected() -> None:
    made = addition_node()
    there = Row({**made.fields, "v": 1}, made.items, made.body)
    rows = rows_with(NODE_ID, there, LEASED)
    assert answered(add, rows) == ADDITION.items
    with pytest.raises(AlreadyExists):
        decided(partial(add, addition=replace(ADDITION, digest="other")), rows)
    with pytest.raises(IdempotencyMismatch):
        decided(partial(add, addition=replace(ADDITION, digest="other", idempotency_key="k")), rows)


def test_items_are_added_to_a_leased_session_only_with_its_fence() -> None:
    rows = rows_with(NODE_ID, None, LEASED)
    with pytest.raises(SessionLocked):
        decided(add, rows)
    assert decided(partial(add, addition=replace(ADDITION, fence=Fence(ID, 7))), rows).changes
    with pytest.raises(StaleFence):
        decided(partial(add, addition=replace(ADDITION, fence=Fence(ID, 6))), rows)


def test_the_context_is_read_in_one_program() -> None:
    program = decided(partial(conversations.read_items, conversation_id=ID))
    assert guards_on(program, Kind.CONVERSATION) == [(Condition.PRESENT, "", None), (Condition.AHEAD, "expires", None)]
    (chain,) = [each for each in program.reads if isinstance(each, Chain)]
    assert chain.from_head


@pytest.mark.parametrize(("session", "removed"), [(None, ()), (row(), ()), (row(removed=["a"]), ["a"])])
def test_removed_items_are_named_with_the_context(session: Row | None, removed: Sequence[str]) -> None:
    made = addition_node()
    chain = chain_rows([(NODE_ID, Row(made.fields, made.items))])
    found = conversations.read_context(View({}), ID)([session, chain])
    assert (names_in(found.array), found.removed) == (["a", "b"], removed)


def test_a_context_over_its_bounds_is_refused() -> None:
    with pytest.raises(ChainTooLong) as caught:
        decided(partial(conversations.read_context, session_id=ID), {SESSION: FREE}, too_long="bytes")
    assert HEAD.id in caught.value.message


def test_removing_an_item_is_idempotent_and_an_unknown_item_is_not_found() -> None:
    remove = partial(conversations.delete_item, conversation_id=ID, item_id="a")
    program = decided(partial(remove, is_there=True), {TALK: STORED, SESSION: row(removed=["z"])})
    assert fields_of(program, Kind.SESSION) == {"removed": ["z", "a"]}
    assert answered(partial(remove, is_there=False), {TALK: STORED, SESSION: row(removed=["a"])}).version == 1
    with pytest.raises(ItemNotFound):
        decided(partial(remove, is_there=False), {TALK: STORED, SESSION: None})
