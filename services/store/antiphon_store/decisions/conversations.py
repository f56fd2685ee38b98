"""Conversations: sessions with metadata, and items that are added to their context by hand.

Row CONVERSATION, in the tree of its session: `metadata` (JSON text), `created`, `version`, `origin` (the digest of the
request that created it), `incarnation` (unique for each creation), `expires`. Added items are stored as a node, the
session's new head. The node has `added` and `deleted` set from the start: a lookup by id does not find it, but it is
part of every chain that goes through it. Its id is a digest of `incarnation` and `Addition.salt`, so a repeated
addition finds its own node. Nodes are never rewritten: the session's `removed` has the ids of items that were removed,
and reading its history leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from antiphon_core import limits
from antiphon_core.errors import (
    AlreadyExists,
    ConversationNotFound,
    IdempotencyMismatch,
    ItemNotFound,
    SessionLocked,
    VersionMismatch,
)
from antiphon_core.ids import UNIQUE_DIGITS, tree_tag
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.conversations import ADDED_ITEMS, Conversation
from antiphon_core.ports.store import Fence, Record, Status
from antiphon_store.decisions import forks, leases, nodes, turns
from antiphon_store.rows.model import Add, ChainRows, Condition, Grow, Index, Kind, Now, Payload, Row
from antiphon_store.rows.view import Finish, View, answer, nothing
from antiphon_store.rules.contents import parse_metadata

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Addition:
    """Items to append to a conversation. Two additions are the same if their `salt` is equal. `digest` is that of the
    items in the request."""

    items: bytes
    digest: str
    salt: str
    idempotency_key: str | None = None
    fence: Fence | None = None


class Items(NamedTuple):
    """The items of a conversation as one JSON array, with the removed ones, and the ids of these."""

    array: bytes
    removed: Sequence[str]


def create(
    view: View,
    conversation_id: str,
    *,
    metadata: bytes,
    origin: str,
    incarnation: str,
    first: Addition | None = None,
    ttl_ms: int | None = None,
) -> Finish[Conversation]:
    """Creates the conversation with its first items; an expired one with this id is ended first. A repeated call
    changes nothing and returns the conversation. AlreadyExists. SessionLocked: a turn runs, and the expired
    conversation would lose it, or the items would come between it and its history.

    `origin` is the digest of the request, `incarnation` is unique for each creation."""
    existing, session = view.need_all((Kind.CONVERSATION, conversation_id), (Kind.SESSION, conversation_id))
    if existing is not None and not nodes.is_expired(existing.fields, view.now_ms):
        if existing.fields["origin"] != origin:
            raise AlreadyExists.of(conversation_id)
        return _finish(conversation_id, existing)
    if (existing is not None or first is not None) and leases.is_leased(session, view.now_ms):
        raise SessionLocked.of(conversation_id)
    expires = view.now_ms + ttl_ms if ttl_ms is not None else None
    fields = {
        "metadata": metadata.decode(),
        "created": view.now_ms,
        "version": 1,
        "origin": origin,
        "incarnation": incarnation,
        "expires": expires,
    }
    head_id = forks.living_head(view, session) if existing is None else None
    if existing is not None:
        end(view, conversation_id, session)
    _found_conversation(view, conversation_id, fields, session)
    if first is not None:
        _append(view, conversation_id, fields, first, head_id)
    return _finish(conversation_id, Row(fields))


def get(view: View, conversation_id: str) -> Finish[Conversation]:
    """Reads a conversation that has not expired. ConversationNotFound."""
    return _finish(conversation_id, require(view, conversation_id))


def update(
    view: View, conversation_id: str, metadata: bytes, expected_version: int | None = None
) -> Finish[Conversation]:
    """Replaces the metadata; a repeated update changes nothing. InvalidRequest, ConversationNotFound,
    VersionMismatch."""
    text = parse_metadata(metadata).decode()
    row = require(view, conversation_id)
    version = row.fields["version"]
    if text == row.fields["metadata"] and expected_version in (None, version, version - 1):
        return _finish(conversation_id, row)
    if expected_version not in (None, version):
        raise VersionMismatch.of(conversation_id, expected=expected_version or 0, actual=version)
    view.set(Kind.CONVERSATION, conversation_id, metadata=text, version=Add(1))
    return _finish(conversation_id, Row({**row.fields, "metadata": text, "version": version + 1}))


def delete(view: View, conversation_id: str, *, responses_ttl_ms: int | None = None) -> Finish[None]:
    """Deletes a conversation whose lease is free. Its responses without an expiry stay readable for `responses_ttl_ms`
    (None: for ever), which a sweep writes into them. ConversationNotFound, SessionLocked."""
    view.need_all((Kind.CONVERSATION, conversation_id), (Kind.SESSION, conversation_id))
    require(view, conversation_id)
    session = view.need(Kind.SESSION, conversation_id)
    if leases.is_leased(session, view.now_ms):
        raise SessionLocked.of(conversation_id)
    end(view, conversation_id, session)
    if session is not None and responses_ttl_ms is not None:
        view.set(Kind.SESSION, conversation_id, responses_until=Now(responses_ttl_ms), ended=Now())
    return nothing


def add_items(view: View, conversation_id: str, addition: Addition) -> Finish[bytes]:
    """Appends items after the session's head, and returns them. A repeated addition changes nothing.

    ConversationNotFound, SessionLocked, StaleFence, IdempotencyMismatch, AlreadyExists."""
    row, session = view.need_all((Kind.CONVERSATION, conversation_id), (Kind.SESSION, conversation_id))
    row = require(view, conversation_id)
    existing = view.need(Kind.NODE, _node_id(conversation_id, row.fields, addition))
    if existing is not None:
        return _added_before(existing, addition)
    if addition.fence is not None:
        leases.require_fence(view, addition.fence)
    elif leases.is_leased(session, view.now_ms):
        raise SessionLocked.of(conversation_id)
    _append(view, conversation_id, row.fields, addition, forks.living_head(view, session))
    return answer(addition.items)


def read_items(view: View, conversation_id: str) -> Finish[Items]:
    """Reads all items of a conversation. ConversationNotFound, ChainTooLong."""
    _require_unexpired(view, conversation_id)
    return read_context(view, conversation_id)


def read_outline(view: View, conversation_id: str) -> Finish[tuple[frozenset[str], frozenset[str]]]:
    """Reads the ids of the nodes that have a conversation's items, and those of its removed items.
    ConversationNotFound, ChainTooLong."""
    _require_unexpired(view, conversation_id)
    return _read_context(
        view,
        conversation_id,
        Payload.NONE,
        lambda session, chain: (frozenset(chain.ids), frozenset(turns.removed_from(session))),
    )


def _require_unexpired(view: View, conversation_id: str) -> None:
    if not (
        view.test(Kind.CONVERSATION, conversation_id, Condition.PRESENT)
        and view.test(Kind.CONVERSATION, conversation_id, Condition.AHEAD, "expires")
    ):
        raise ConversationNotFound.of(conversation_id)


def read_context(view: View, session_id: str) -> Finish[Items]:
    """Reads the items in the history of a session. ChainTooLong."""
    return _read_context(
        view,
        session_id,
        Payload.ITEMS,
        lambda session, chain: Items(nodes.joined_items(chain), turns.removed_from(session)),
    )


def _read_context(
    view: View, session_id: str, payload: Payload, answer_of: Callable[[Row | None, ChainRows], _Answer]
) -> Finish[_Answer]:
    max_depth, max_bytes = limits.CHAIN_DEPTH_MAX, limits.CHAIN_BYTES_MAX
    if view.too_long:
        raise turns.too_long(turns.head_of(view, session_id), view.too_long, max_depth, max_bytes)
    return view.answer_from(answer_of, *turns.context(session_id, payload, max_depth, max_bytes))


def delete_item(view: View, conversation_id: str, item_id: str, *, is_there: bool) -> Finish[Conversation]:
    """Marks an item as removed from the context; a repeated call changes nothing. `is_there`: an earlier read found the
    item in the context, which only grows. ConversationNotFound, ItemNotFound."""
    row, session = view.need_all((Kind.CONVERSATION, conversation_id), (Kind.SESSION, conversation_id))
    row = require(view, conversation_id)
    removed = turns.removed_from(session)
    if item_id not in removed:
        if not is_there:
            raise ItemNotFound.of(item_id)
        view.set(Kind.SESSION, conversation_id, removed=[*removed, item_id])
    return _finish(conversation_id, row)


def end(view: View, conversation_id: str, session: Row | None) -> None:
    """Deletes the conversation and its context, and frees its head. The session is a candidate for cleanup."""
    view.delete(Kind.CONVERSATION, conversation_id)
    view.unfile(Index.ENDS, "", f"{Kind.CONVERSATION}/{conversation_id}")
    if session is not None:
        leases.give_back(view, conversation_id, head=None, removed=None, is_over=True)
        leases.check_later(view, conversation_id)
        if session.fields.get("head") is not None:
            view.file(Index.ENDS, "", f"{Kind.NODE}/{session.fields['head']}")


def require(view: View, conversation_id: str) -> Row:
    """The row of a conversation that has not expired. ConversationNotFound."""
    row = view.need(Kind.CONVERSATION, conversation_id)
    if row is None or not view.test(Kind.CONVERSATION, conversation_id, Condition.AHEAD, "expires"):
        raise ConversationNotFound.of(conversation_id)
    return row


def _found_conversation(view: View, conversation_id: str, fields: Mapping[str, Any], session: Row | None) -> None:
    """Writes a new conversation, and makes its session begin again."""
    view.put(Kind.CONVERSATION, conversation_id, fields)
    leases.begin_again(view, conversation_id, session)
    if fields["expires"] is not None:
        view.file(Index.ENDS, "", f"{Kind.CONVERSATION}/{conversation_id}", fields["expires"])


def _finish(conversation_id: str, row: Row) -> Finish[Conversation]:
    fields = row.fields
    return answer(Conversation(conversation_id, fields["metadata"].encode(), fields["created"], fields["version"]))


def _node_id(conversation_id: str, fields: Any, addition: Addition) -> str:
    unique = sha256(f"{fields['incarnation']}:{addition.salt}".encode()).hexdigest()[:UNIQUE_DIGITS]
    return f"resp_{tree_tag(conversation_id)}{unique}"


def _append(view: View, conversation_id: str, fields: Any, addition: Addition, head_id: str | None) -> None:
    """Writes a node of these items after the head, and makes it the head. It expires with the conversation."""
    node_id = _node_id(conversation_id, fields, addition)
    body = dumps({"object": ADDED_ITEMS, "digest": addition.digest})
    record = Record(node_id, Status.COMPLETED, body, addition.items, parent_id=head_id, session_id=conversation_id)
    written, items, body = nodes.write_node(record)
    written |= {"deleted": 1, "added": 1, "version": 1, "expires": fields["expires"]}
    view.grow(Grow(node_id, head_id, written, items, body))
    view.set(Kind.SESSION, conversation_id, head=node_id)
    for item_id in dict.fromkeys(item["id"] for item in loads(addition.items)):
        view.file(nodes.item_index(item_id, node_id), item_id, node_id)
    if fields["expires"] is not None:
        view.file(Index.ENDS, "", f"{Kind.NODE}/{node_id}", fields["expires"])


def _added_before(existing: Row, addition: Addition) -> Finish[bytes]:
    """Returns the items of an earlier addition. IdempotencyMismatch, AlreadyExists: it added other items."""
    if loads(existing.body).get("digest") == addition.digest:
        items, _ = nodes.unpack(existing.items, existing.fields["input_bytes"])
        return answer(items)
    if addition.idempotency_key is not None:
        raise IdempotencyMismatch.of(addition.idempotency_key)
    raise AlreadyExists.of(loads(addition.items)[0]["id"])
