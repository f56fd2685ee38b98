"""Validation of arguments about conversations. `parse_*` functions parse JSON."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ids import Ids, new_item_id
from antiphon_core.items import ID_PREFIX
from antiphon_core.jsons import Object, dumps, kind, parse_array, parse_object
from antiphon_core.ports.store import Fence
from antiphon_store.rules import common as rules


def require_own_fence(fence: Fence | None, conversation_id: str) -> None:
    if fence is not None and fence.session_id != conversation_id:
        raise rules.invalid("fence.session_id", "Items are added under the fence of the conversation itself.")


def parse_metadata(metadata: bytes) -> bytes:
    """Checks metadata, and returns it in the stored form."""
    if len(metadata) > limits.METADATA_BYTES_MAX:
        raise rules.invalid("metadata", f"'metadata' has more than {limits.METADATA_BYTES_MAX} bytes.")
    pairs = parse_object(metadata, field="metadata")
    if len(pairs) > limits.METADATA_PAIRS_MAX:
        raise rules.invalid("metadata", f"'metadata' must have at most {limits.METADATA_PAIRS_MAX} pairs.")
    for key, value in pairs.items():
        if len(key) > limits.METADATA_KEY_CHARS_MAX:
            raise rules.invalid(
                "metadata", f"A key of 'metadata' is longer than {limits.METADATA_KEY_CHARS_MAX} characters."
            )
        if not isinstance(value, str) or len(value) > limits.METADATA_VALUE_CHARS_MAX:
            raise rules.invalid(
                f"metadata.{key}",
                f"'metadata.{key}' must be a string of at most {limits.METADATA_VALUE_CHARS_MAX} characters.",
            )
    return dumps(pairs)


def parse_items(items: bytes) -> list[Object]:
    """Parses and checks items: at most CONVERSATION_ITEMS_MAX objects, without a repeated id."""
    rules.check_size("The items are", len(items), limits.RECORD_BYTES_MAX, "items")
    entries = parse_array(items, field="items")
    if len(entries) > limits.CONVERSATION_ITEMS_MAX:
        raise rules.invalid("items", f"At most {limits.CONVERSATION_ITEMS_MAX} items are added at once.")
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"items[{index}]"
        if not isinstance(entry, dict):
            raise rules.invalid(path, f"'{path}' must be a JSON object, but is {kind(entry)}.", code="invalid_type")
        if entry.get("id") is not None:
            _check_unique(entry["id"], seen, f"{path}.id")
    return entries


def with_ids(entries: list[Object], ids: Ids) -> bytes:
    """The items as a JSON array, each with an id: its own, or a new one with the prefix of its type."""
    return dumps([entry if entry.get("id") is not None else _named(entry, ids) for entry in entries])


def given_ids(entries: list[Object]) -> list[str] | None:
    """The ids of the items; None if an item has none."""
    found = [entry.get("id") for entry in entries]
    return None if None in found else [str(item_id) for item_id in found]


def _named(entry: Object, ids: Ids) -> Object:
    item_type = entry.get("type", "message")
    prefix = ID_PREFIX.get(item_type, "item") if isinstance(item_type, str) else "item"
    return {"id": new_item_id(ids, prefix), **{name: value for name, value in entry.items() if name != "id"}}


def _check_unique(item_id: object, seen: set[str], path: str) -> None:
    if not isinstance(item_id, str) or not item_id:
        raise rules.invalid(path, f"'{path}' must be a string that is not empty.", code="invalid_type")
    if item_id in seen:
        raise rules.invalid(path, f"'{path}' is the id of an earlier item as well.")
    seen.add(item_id)
