"""Cursors: where a page ended, as text that callers hand back without looking inside.

    base64url( CRC-32 of the rest | fingerprint of the question | position as JSON )

The fingerprint covers the tenant, the operation and its arguments, but not the page's size: a cursor taken to another
question is refused instead of giving a page of something else. The checksum tells damage. Neither is a secret, and
none is needed: whoever forges a cursor only chooses where their own page begins.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import astuple
from hashlib import sha256
from zlib import crc32

import orjson

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import is_response_id
from antiphon_core.jsons import dumps, loads
from antiphon_store.values import Position

_CHECKSUM_BYTES = 4
_FINGERPRINT_BYTES = 8
_INT64_MAX = 2**63 - 1


def encode(question: Sequence[str], position: Position) -> str:
    """The cursor of a page of `question` (tenant, operation, arguments) that ended at `position`."""
    rest = _fingerprint(question) + dumps(astuple(position))
    return urlsafe_b64encode(_checksum(rest) + rest).rstrip(b"=").decode()


def decode(question: Sequence[str], cursor: str | None) -> Position | None:
    """Where the page before ended; None when there was none. InvalidRequest: not a cursor of this question."""
    if cursor is None:
        return None
    rest = _intact(cursor)
    if rest is None or not rest.startswith(_fingerprint(question)):
        raise _foreign()
    position = _position(rest[_FINGERPRINT_BYTES:])
    if position is None:
        raise _foreign()
    return position


def _fingerprint(question: Sequence[str]) -> bytes:
    return sha256(dumps(list(question))).digest()[:_FINGERPRINT_BYTES]


def _checksum(rest: bytes) -> bytes:
    return crc32(rest).to_bytes(_CHECKSUM_BYTES, "big")


def _intact(cursor: str) -> bytes | None:
    """The bytes that a cursor encodes; None if it was changed on the way."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        data = urlsafe_b64decode(padded)
    except (UnicodeEncodeError, binascii.Error):
        return None
    checksum, rest = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    canonical = urlsafe_b64encode(data) == padded  # the decoder skips what is no base64
    return rest if canonical and checksum == _checksum(rest) else None


def _position(data: bytes) -> Position | None:
    try:
        value = loads(data)
    except orjson.JSONDecodeError:
        return None
    match value:
        case [int(depth), int(created_at_ms), str(response_id)] if is_response_id(response_id):
            if 0 <= depth <= _INT64_MAX and 0 <= created_at_ms <= _INT64_MAX:
                return Position(depth, created_at_ms, response_id)
    return None


def _foreign() -> InvalidRequest:
    return InvalidRequest(
        "'cursor' must be a 'next_cursor' of an earlier page of the same list.", field="cursor", code="invalid_value"
    )
