"""Conversations, case by case. `antiphon_store.testing.conversations` tests them through a store."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import (
    ChainTooLong,
    SessionLocked,
)
from antiphon_store.decisions import conversations
from antiphon_store.decisions.conversations import Addition
from antiphon_store.rows.model import Grow, Index, Kind, Program, Row
from antiphon_store.testing.conversations import array, new_id
from antiphon_store.testing.subject import draft
from tests.support.rows import (
    NOW_MS,
    decided,
    fields_of,
    node,
    pins,
    row,
    shown,
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


def test_creating_over_an_expired_conversation_with_a_running_turn_is_rejected() -> None:
    for founding in (create, partial(create, first=ADDITION)):
        with pytest.raises(SessionLocked):
            decided(founding, {TALK: OVER, SESSION: LEASED, HEAD_REF: node(HEAD)})


def test_creating_over_a_used_session_keeps_its_context() -> None:
    founding = partial(create, first=ADDITION)
    rows = {TALK: None, SESSION: FREE, HEAD_REF: node(HEAD)}
    assert grown(decided(founding, rows)).parent == HEAD.id
    with pytest.raises(SessionLocked):
        decided(founding, {**rows, SESSION: LEASED})
    assert decided(create, {**rows, SESSION: LEASED}).changes  # a creation without items needs no lease


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


def test_a_context_over_its_bounds_is_refused() -> None:
    with pytest.raises(ChainTooLong) as caught:
        decided(partial(conversations.read_context, session_id=ID), {SESSION: FREE}, too_long="bytes")
    assert HEAD.id in caught.value.message
