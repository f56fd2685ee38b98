"""Page cursors: the position at which a page ended, as opaque text.

    base64url( digest of the question and the position | position as JSON )

The question is the tenant, the operation and its arguments, but not the page's size: a cursor that comes with another
question, or that was changed, is rejected. The digest needs no secret key: a caller that forges a cursor only chooses
where its own page begins.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from antiphon_core.ids import is_approval_id, is_response_id
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.checks import INT64_MAX, invalid
from antiphon_core.ports.lineage import Node
from antiphon_core.ports.store import Record

_DIGEST_BYTES = 12


class Position(NamedTuple):
    """The position of a page's last response, or approval, in every sort order. Each order is by creation time and then
    by id (as ASCII), some by depth before that."""

    depth: int
    created_at_ms: int
    id: str


def encode(question: Sequence[str], last: Position | Record | Node) -> str:
    """The cursor of a page of `question` (tenant, operation, arguments) that ended with `last`."""
    where = dumps([last.depth, last.created_at_ms, last.id])
    digest = sha256(dumps(list(question)) + where).digest()[:_DIGEST_BYTES]
    return urlsafe_b64encode(digest + where).rstrip(b"=").decode()


def decode(question: Sequence[str], cursor: str | None) -> Position | None:
    """Returns the position at which the page before ended; None for the first page. InvalidRequest: not a cursor of
    this question."""
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
        case [int(depth), int(created_at_ms), str(last_id)] if is_response_id(last_id) or is_approval_id(last_id):
            if 0 <= depth <= INT64_MAX and 0 <= created_at_ms <= INT64_MAX:
                return Position(depth, created_at_ms, last_id)
    return None
