"""Validation of JSON: bodies and items of records, metadata and items of conversations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from antiphon_core import limits
from antiphon_core.ids import Ids, new_item_id
from antiphon_core.items import ID_PREFIX
from antiphon_core.jsons import Object, dumps, kind, parse_array, parse_object
from antiphon_core.ports.checks import invalid, too_large
from antiphon_core.ports.store import Record


def check_record(record: Record) -> tuple[Record, tuple[str, ...]]:
    """Checks the JSON of a record, so that histories can join it without parsing. Returns the record without white
    space around and right inside the brackets of its item arrays, where histories join them, and the distinct ids of
    its items."""
    if "output" in parse_object(record.body, field="record.body"):
        text = "'record.body' must not have the member 'output': it belongs in 'record.output_items'."
        raise invalid("record.body", text)
    item_ids: dict[str, None] = {}
    tight: dict[str, Any] = {}
    for name in ("input_items", "output_items"):
        array = getattr(record, name)
        for index, item in enumerate(_parse_objects(array, f"record.{name}")):
            _check_id(item.get("id"), f"record.{name}[{index}].id")
            item_ids[item["id"]] = None
        if array[:1] + array[-1:] != b"[]" or array[1:2].isspace() or array[-2:-1].isspace():
            tight[name] = b"[%b]" % array.strip()[1:-1].strip()
    return replace(record, **tight) if tight else record, tuple(item_ids)


def parse_metadata(metadata: bytes) -> bytes:
    """Checks metadata, and returns it in the stored form."""
    if len(metadata) > limits.METADATA_BYTES_MAX:
        raise invalid("metadata", f"'metadata' has more than {limits.METADATA_BYTES_MAX} bytes.")
    pairs = parse_object(metadata, field="metadata")
    if len(pairs) > limits.METADATA_PAIRS_MAX:
        raise invalid("metadata", f"'metadata' must have at most {limits.METADATA_PAIRS_MAX} pairs.")
    for key, value in pairs.items():
        most = limits.METADATA_KEY_CHARS_MAX
        if len(key) > most:
            raise invalid("metadata", f"A key of 'metadata' is longer than {most} characters.")
        most = limits.METADATA_VALUE_CHARS_MAX
        if not isinstance(value, str) or len(value) > most:
            path = f"metadata.{key}"
            raise invalid(path, f"'{path}' must be a string of at most {most} characters.")
    return dumps(pairs)


def parse_items(items: bytes) -> list[Object]:
    """Parses and checks items: at most CONVERSATION_ITEMS_MAX objects, without a repeated id."""
    if len(items) > limits.RECORD_BYTES_MAX:
        raise too_large("The items are", len(items), limits.RECORD_BYTES_MAX, "items")
    entries = _parse_objects(items, "items")
    if len(entries) > limits.CONVERSATION_ITEMS_MAX:
        raise invalid("items", f"At most {limits.CONVERSATION_ITEMS_MAX} items are added at once.")
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry.get("id") is not None:
            path = f"items[{index}].id"
            _check_id(entry["id"], path)
            _require_new(entry["id"], seen, path)
    return entries


def with_ids(entries: list[Object], ids: Ids, conversation_id: str) -> bytes:
    """The items as a JSON array, each with an id: its own, or a new one with the prefix of its type, in the tree of the
    conversation."""
    return dumps([entry if entry.get("id") is not None else _with_id(entry, ids, conversation_id) for entry in entries])


def given_ids(entries: list[Object]) -> list[str] | None:
    """The ids of the items; None if an item has none."""
    found = [entry.get("id") for entry in entries]
    return None if None in found else [str(item_id) for item_id in found]


def _parse_objects(items: bytes, field: str) -> list[Object]:
    """The items of a JSON array, which must be objects."""
    entries = parse_array(items, field=field, values_max=limits.RECORD_VALUES_MAX)
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            path = f"{field}[{index}]"
            raise invalid(path, f"'{path}' must be a JSON object, but is {kind(entry)}.", code="invalid_type")
    return entries


def _with_id(entry: Object, ids: Ids, conversation_id: str) -> Object:
    item_type = entry.get("type", "message")
    prefix = ID_PREFIX.get(item_type, "item") if isinstance(item_type, str) else "item"
    item_id = new_item_id(ids, prefix, relative=conversation_id)
    return {"id": item_id, **{name: value for name, value in entry.items() if name != "id"}}


def _check_id(item_id: object, path: str) -> None:
    """Checks an item's id. An empty one would be taken for a missing page token."""
    if not isinstance(item_id, str) or not item_id:
        raise invalid(path, f"'{path}' must be a string that is not empty.", code="invalid_type")
    most = limits.ITEM_ID_BYTES_MAX
    if len(item_id.encode()) > most:
        raise invalid(path, f"'{path}' must have at most {most} bytes.", code="string_above_max_length")


def _require_new(item_id: str, seen: set[str], path: str) -> None:
    if item_id in seen:
        raise invalid(path, f"'{path}' is the id of an earlier item as well.")
    seen.add(item_id)
