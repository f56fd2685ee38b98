"""What scripts answer, as values: stamps, leases, records, histories. Here bytes are held against their checksums."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from antiphon_core.errors import InternalError
from antiphon_core.ports.lineage import TreeNode
from antiphon_core.ports.store import Fence, History, Lease, Record, Session, Stamp, Status
from antiphon_core.telemetry import remedies
from antiphon_store.backends import packing
from antiphon_store.backends.redis.calls import NONE
from antiphon_store.backends.roles.lineage import Twig

log = logging.getLogger(__name__)

Answer = Sequence[Any]

_STATUSES = {status.value: status for status in Status}


class Meta(NamedTuple):
    """The words that stand beside a response's bytes, in the order of FIELDS in lua/parts/nodes.lua."""

    id: str
    branch: str
    depth: str
    deleted: str
    version: str
    status: str
    created: str
    updated: str
    expires: str
    parent: str
    session: str
    size: str
    input_bytes: str
    items_crc: str
    body_crc: str


def stamp(answer: Answer) -> Stamp:
    version, depth, created_at_ms, updated_at_ms, expires_at_ms = answer
    return Stamp(version, depth, created_at_ms, updated_at_ms, expires_at_ms or None)


def lease(session_id: str, answer: Answer) -> Lease:
    token, holder, expires_at_ms = answer
    return Lease(Fence(session_id, token), holder.decode(), expires_at_ms)


def session(session_id: str, answer: Answer) -> Session:
    last_fence, holder, lease_expires_at_ms, head_id = answer
    living = lease(session_id, (last_fence, holder, lease_expires_at_ms)) if holder else None
    return Session(id=session_id, head_id=head_id.decode() or None, last_fence=last_fence, lease=living)


def record(answer: Answer) -> Record:
    """InternalError: the bytes are not those that were written."""
    meta, items, body = read_meta(answer[0]), answer[1], answer[2]
    require_items(meta, items)
    if body is None or packing.body_checksum(meta.id, body) != int(meta.body_crc):
        raise _damaged(meta.id)
    input_items, output_items = packing.unpack(items, int(meta.input_bytes))
    return Record(
        id=meta.id,
        status=_STATUSES[meta.status],
        body=body,
        input_items=input_items,
        output_items=output_items,
        parent_id=_optional(meta.parent),
        session_id=_optional(meta.session),
        version=int(meta.version),
        depth=int(meta.depth),
        created_at_ms=int(meta.created),
        updated_at_ms=int(meta.updated),
        expires_at_ms=None if meta.expires == NONE else int(meta.expires),
    )


def records(answer: Answer) -> list[Record]:
    metas, items, bodies = answer
    return [record(each) for each in zip(metas, items, bodies, strict=True)]


def history(head_id: str | None, answer: Answer) -> History:
    """InternalError: the bytes are not those that were written."""
    metas, items = answer
    if not head_id:
        return History()
    for words, packed in zip(metas, items, strict=True):
        require_items(read_meta(words), packed)
    return History(items=packing.join(items), depth=len(items), head_id=head_id)


def twig(words: bytes, readable: int) -> Twig:
    meta = read_meta(words)
    return Twig(
        id=meta.id,
        parent_id=_optional(meta.parent),
        status=_STATUSES[meta.status],
        depth=int(meta.depth),
        created_at_ms=int(meta.created),
        is_readable=bool(readable),
    )


def tree_node(words: bytes, child_count: int) -> TreeNode:
    """A readable node."""
    meta = read_meta(words)
    return TreeNode(
        id=meta.id,
        parent_id=_optional(meta.parent),
        status=_STATUSES[meta.status],
        depth=int(meta.depth),
        child_count=child_count,
        created_at_ms=int(meta.created),
    )


def read_meta(words: bytes | None) -> Meta:
    """InternalError: the words are not there, or not so many as there must be."""
    try:
        return Meta(*(words or b"").decode().split(" "))
    except (TypeError, UnicodeDecodeError) as error:
        raise InternalError("A stored response is damaged.") from error


def require_items(meta: Meta, items: bytes | None) -> None:
    """InternalError: the items are not those that were written."""
    if items is None or packing.checksum(meta.id, int(meta.input_bytes), items) != int(meta.items_crc):
        raise _damaged(meta.id)


def _damaged(response_id: str) -> InternalError:
    log.error("the stored bytes of %s are damaged: their checksum differs", response_id, extra=remedies.RESTORE_DATA)
    return InternalError(f"The stored bytes of '{response_id}' are damaged.", id=response_id)


def _optional(word: str) -> str | None:
    return None if word == NONE else word
