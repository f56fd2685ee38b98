"""The rules of conversations as pure functions, shared by engines.

A conversation is a row beside its session. Items that are added by hand are a node of the tree like a response, the
session's new head, and born deleted: no id finds it, but it is part of every chain that goes through it, and is kept as
long as it is a head or something kept descends from it (base.py). Its id is computed from what makes the addition
unique, so the same addition again meets its own node.

An item that was taken out of a conversation is a row of its own, applied whenever that conversation's history is read:
nodes are shared with other branches, and never rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from hashlib import sha256

from antiphon_core import limits
from antiphon_core.errors import AlreadyExists, IdempotencyMismatch, SessionLocked, VersionMismatch
from antiphon_core.ids import UNIQUE_DIGITS, tree_tag
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.conversations import ADDED_ITEMS, Conversation
from antiphon_core.ports.store import Fence, History, Record, Status
from antiphon_store.backends import admission, leases
from antiphon_store.backends.base import Write
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.leases import SessionState


@dataclass(frozen=True, slots=True)
class Addition:
    """Items to be appended. `salt` is the same exactly when the addition is; `digest` is that of the items as given."""

    items: bytes
    digest: str
    salt: str
    idempotency_key: str | None = None
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class Founding:
    """A conversation to be made. `origin` is the digest of what was asked for, `incarnation` unlike any other."""

    conversation_id: str
    metadata: bytes
    origin: str
    incarnation: str
    first: Addition | None = None
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation's row."""

    conversation: Conversation
    origin: str
    incarnation: str
    expires_at_ms: int | None

    def is_expired(self, now_ms: int) -> bool:
        return admission.is_expired(self.expires_at_ms, now_ms)


def founded(founding: Founding, now_ms: int) -> StoredConversation:
    return StoredConversation(
        Conversation(founding.conversation_id, founding.metadata, created_at_ms=now_ms, version=1),
        founding.origin,
        founding.incarnation,
        now_ms + founding.ttl_ms if founding.ttl_ms is not None else None,
    )


def require_same_origin(existing: StoredConversation, founding: Founding) -> None:
    """AlreadyExists unless the conversation was made by this very founding."""
    if existing.origin != founding.origin:
        raise AlreadyExists.of(founding.conversation_id)


def revised(stored: StoredConversation, metadata: bytes, expected_version: int | None) -> StoredConversation:
    """The conversation with other metadata, or itself when this was done already. VersionMismatch."""
    current = stored.conversation
    if metadata == current.metadata and expected_version in (None, current.version, current.version - 1):
        return stored
    if expected_version not in (None, current.version):
        raise VersionMismatch.of(current.id, expected=expected_version or 0, actual=current.version)
    return replace(stored, conversation=replace(current, metadata=metadata, version=current.version + 1))


def node_id(stored: StoredConversation, addition: Addition) -> str:
    """The id of the node that an addition becomes, in the conversation's tree."""
    unique = sha256(f"{stored.incarnation}:{addition.salt}".encode()).hexdigest()[:UNIQUE_DIGITS]
    return f"resp_{tree_tag(stored.conversation.id)}{unique}"


def write_of(stored: StoredConversation, addition: Addition, *, parent_id: str | None, now_ms: int) -> Write:
    """The node that an addition becomes. It lives as long as its conversation; its items are found by their ids."""
    record = Record(
        id=node_id(stored, addition),
        status=Status.COMPLETED,
        body=dumps({"object": ADDED_ITEMS, "digest": addition.digest}),
        input_items=addition.items,
        parent_id=parent_id,
        session_id=stored.conversation.id,
    )
    ttl_ms = stored.expires_at_ms - now_ms if stored.expires_at_ms is not None else None
    return Write(record, ttl_ms=ttl_ms, item_ids=tuple(dict.fromkeys(item["id"] for item in loads(addition.items))))


def answer_again(existing: Record, addition: Addition) -> bytes:
    """The items of an addition that was made before. IdempotencyMismatch or AlreadyExists: it was another one."""
    if loads(existing.body).get("digest") == addition.digest:
        return existing.input_items
    if addition.idempotency_key is not None:
        raise IdempotencyMismatch.of(addition.idempotency_key)
    raise AlreadyExists.of(loads(addition.items)[0]["id"])


def require_free(state: SessionState, conversation_id: str, fence: Fence | None, now_ms: int) -> None:
    """That items may be appended now: nobody holds the lease, or the caller does. SessionLocked, StaleFence."""
    if fence is not None:
        leases.require(state, fence, now_ms)
    elif state.is_held(now_ms):
        raise SessionLocked.of(conversation_id)


def without(items: bytes, removed: Collection[str]) -> bytes:
    """A JSON array of items without those that were taken out; the very bytes when none was."""
    if not removed:
        return items
    return dumps([item for item in loads(items) if item.get("id") not in removed])


def read_context(removed: Collection[str], bounds: ChainBounds, read: Callable[[ChainBounds], History]) -> History:
    """The history that `read` gives, without removed items. `bounds.max_bytes` is for what is left: who took a large
    item out goes on. ChainTooLong."""
    if not removed:
        return read(bounds)
    whole = read(replace(bounds, max_bytes=limits.CHAIN_BYTES_MAX))
    left = without(whole.items, removed)
    bounds.require_bytes(len(left))
    return replace(whole, items=left)


def whole_context(conversation_id: str) -> ChainBounds:
    """The bounds of a conversation that is read by itself."""
    return ChainBounds(conversation_id, limits.CHAIN_DEPTH_MAX, limits.CHAIN_BYTES_MAX)


def find(items: bytes, item_id: str) -> Object | None:
    """The item of that id in a JSON array."""
    return next((item for item in loads(items) if item.get("id") == item_id), None)
