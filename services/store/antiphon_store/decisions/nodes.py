"""Row NODE: a response, or items that a client added to a conversation, and its position in the tree.

Fields: `parent`, `depth`, `session` (that it was made in), `status`, `version` (of the record), `deleted` (0 or 1),
`added` (1 for added items), `created`, `updated`, `expires` (None: never), `size` (bytes of body and items),
`input_bytes`, `items_crc`, `body_crc`. Payloads: the packed items, and the body.

    readable   not deleted, not expired: its id can be read, continued, replaced, deleted
    kept       not expired, and readable or the head of a session: the row stays
    otherwise  the row stays only while a kept node descends from it, because that node's chain contains it

The packed items of a row are the elements of the input and output arrays, joined by commas, without brackets. The
history of a chain is then one join of the packed items of its rows. `input_bytes` is the length of the input:

    input [A,B], output [C]  ->  A,B,C with input_bytes 3
    input [],    output [C]  ->  C     with input_bytes 0

The arrays are tight: the service has removed white space inside their brackets (`rules.contents.tight`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields as fields_of
from dataclasses import make_dataclass
from typing import Any
from zlib import crc32

from antiphon_core import damage
from antiphon_core.abandoned_calls import as_history
from antiphon_core.errors import DataDamaged
from antiphon_core.ids import item_tag, tree_tag
from antiphon_core.jsons import loads
from antiphon_core.ports.store import Record, Stamp, Status
from antiphon_store.rows.model import ChainRows, Index, Now, Row
from antiphon_store.rows.stored_rows import require_sound_nodes

_Draft = make_dataclass("_Draft", [each.name for each in fields_of(Record)], slots=True)
"""A mutable twin of Record: making a frozen dataclass takes five times as long, a quarter of the time of a chain."""

_STATUSES = {status.value: status for status in Status}


def is_expired(fields: Mapping[str, Any], now_ms: int) -> bool:
    expires = fields["expires"]
    return expires is not None and expires <= now_ms


def is_readable(row: Row | None, now_ms: int) -> bool:
    return row is not None and not row.fields["deleted"] and not is_expired(row.fields, now_ms)


def write_node(record: Record, ttl_ms: int | None = None) -> tuple[dict[str, Any], bytes, bytes]:
    """Makes the fields and payloads of a node from a record. `ttl_ms` is its lifetime from now; None: for ever."""
    items, input_bytes = pack(record.input_items, record.output_items)
    items_crc = checksum(record.id, input_bytes, items)
    fields = {
        "parent": record.parent_id,
        "session": record.session_id,
        "status": record.status.value,
        "deleted": 0,
        "expires": None if ttl_ms is None else Now(ttl_ms),
        "size": record.size_bytes,
        "input_bytes": input_bytes,
        "items_crc": items_crc,
        "body_crc": body_checksum(items_crc, record.body),
    }
    return fields, items, record.body


def to_record(response_id: str, row: Row) -> Record:
    """The record of a node with all payloads. DataDamaged: its bytes are not those that were written."""
    return _record(response_id, *row)


def to_records(chain: ChainRows) -> list[Record]:
    """The records of a chain with all payloads. DataDamaged: they are not those that were written."""
    require_sound_nodes(chain.ids, chain.fields)
    with _reading(chain):
        return list(map(_record, *chain))


def _record(response_id: str, fields: Mapping[str, Any], items: bytes, body: bytes) -> Record:
    input_bytes = fields["input_bytes"]
    if fields["body_crc"] != body_checksum(checksum(response_id, input_bytes, items), body):
        raise _damage_error(response_id)
    input_items, output_items = unpack(items, input_bytes)
    record: Record = _Draft(
        response_id,
        _STATUSES[fields["status"]],
        body,
        input_items,
        output_items,
        fields["parent"],
        fields["session"],
        fields["version"],
        fields["depth"],
        fields["created"],
        fields["updated"],
        fields["expires"],
    )
    record.__class__ = Record
    return record


def stamp_of(row: Row) -> Stamp:
    fields = row.fields
    return Stamp(fields["version"], fields["depth"], fields["created"], fields["updated"], fields["expires"])


def item_index(item_id: str, response_id: str) -> Index:
    """The index that names a response as a holder of an item."""
    tag = item_tag(item_id)
    return Index.ITEM if tag is not None and tag == tree_tag(response_id) else Index.FOREIGN


def item_ids(row: Row) -> list[str]:
    """The distinct ids of a node's items; none if the items are damaged."""
    try:
        return list(dict.fromkeys(item["id"] for item in loads(join([row.items]))))
    except damage.UNREADABLE:
        return []


def joined_items(chain: ChainRows) -> bytes:
    """All items of a chain as one JSON array, with the calls of each response as later turns read them
    (antiphon_core.abandoned_calls). DataDamaged: they are not those that were written."""
    with _reading(chain):
        for response_id, fields, items in zip(chain.ids, chain.fields, chain.items, strict=True):
            if fields["items_crc"] != checksum(response_id, fields["input_bytes"], items):
                raise _damage_error(response_id)
        return join(list(map(_history_of, chain.fields, chain.items)))


def _history_of(fields: Mapping[str, Any], items: bytes) -> bytes:
    if fields["status"] == Status.COMPLETED.value:
        return items
    given, output = unpack(items, fields["input_bytes"])
    return pack(given, as_history(output, _STATUSES[fields["status"]]))[0]


# ---- Packed items ----


def pack(input_items: bytes, output_items: bytes) -> tuple[bytes, int]:
    """The elements of two tight JSON arrays, and the number of bytes that are those of the first."""
    first, second = input_items[1:-1], output_items[1:-1]
    return first + (b"," if first and second else b"") + second, len(first)


def unpack(items: bytes, input_bytes: int) -> tuple[bytes, bytes]:
    """The two arrays that `pack` was called with."""
    has_comma = 0 < input_bytes < len(items)
    # formatting copies once: b"[" + items + b"]" would copy twice
    return b"[%b]" % items[:input_bytes], b"[%b]" % items[input_bytes + has_comma :]


def join(packed: Sequence[bytes]) -> bytes:
    """One JSON array of all elements. A large history is copied only once, which is most of the work."""
    parts = [part for part in packed if part]
    if not parts:
        return b"[]"
    parts[0] = b"[" + parts[0]
    parts[-1] += b"]"
    return b",".join(parts)


def checksum(response_id: str, input_bytes: int, items: bytes) -> int:
    """CRC-32 of the response's id and its packed items. With the id, it also detects the bytes of another response."""
    return crc32(items, crc32(response_id.encode(), input_bytes))


def body_checksum(items_checksum: int, body: bytes) -> int:
    """CRC-32 of a body, continued from that of the items, so that one comparison covers both."""
    return crc32(body, items_checksum)


def _reading(chain: ChainRows) -> AbstractContextManager[None]:
    return damage.reading(f"the history of '{chain.ids[-1] if chain.ids else None}'")


def _damage_error(response_id: str) -> DataDamaged:
    return damage.report(f"response '{response_id}'", "their checksum differs")
