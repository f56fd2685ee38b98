"""Cursors: where a page ended, as text that callers hand back without looking inside.

    base64url( digest of the question and the position | position as JSON )

The question is the tenant, the operation and its arguments, but not the page's size: a cursor taken to another question
is refused instead of giving a page of something else, and so is one that was changed on the way. The digest is no
secret, and needs none: whoever forges a cursor only chooses where their own page begins.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from hashlib import sha256
from typing import Self

from antiphon_core.ids import is_response_id
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.lineage import TreeNode
from antiphon_core.ports.store import Record
from antiphon_store.rules.common import INT64_MAX, invalid

_DIGEST_BYTES = 12


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page ended: the place of its last response in every order that there is. Each order goes by depth (or
    not), then by time of birth, then by id. Ids are compared as ASCII."""

    depth: int
    created_at_ms: int
    id: str

    @classmethod
    def of(cls, last: Record | TreeNode) -> Self:
        return cls(last.depth, last.created_at_ms, last.id)


def encode(question: Sequence[str], position: Position) -> str:
    """The cursor of a page of `question` (tenant, operation, arguments) that ended at `position`."""
    where = dumps(astuple(position))
    digest = sha256(dumps(list(question)) + where).digest()[:_DIGEST_BYTES]
    return urlsafe_b64encode(digest + where).rstrip(b"=").decode()


def decode(question: Sequence[str], cursor: str | None) -> Position | None:
    """Where the page before ended; None when there was none. InvalidRequest: not a cursor of this question."""
    if cursor is None:
        return None
    position = _position(cursor)
    if position is None or encode(question, position) != cursor:
        raise invalid("cursor", "'cursor' must be a 'next_cursor' of an earlier page of the same list.")
    return position


def _position(cursor: str) -> Position | None:
    try:
        data = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        value = loads(data[_DIGEST_BYTES:])
    except ValueError:  # no ASCII, no base64 or no JSON
        return None
    match value:
        case [int(depth), int(created_at_ms), str(response_id)] if is_response_id(response_id):
            if 0 <= depth <= INT64_MAX and 0 <= created_at_ms <= INT64_MAX:
                return Position(depth, created_at_ms, response_id)
    return None
