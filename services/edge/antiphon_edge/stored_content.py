"""Reads the content that the store returns as bytes: responses, items, events, prompts and metadata.

A checksum shows that bytes are those that were written, not that Antiphon wrote them: a program beside Antiphon may
have written rows with valid checksums. Each function here checks the form that its callers rely on, and raises
DataDamaged if the content does not have it (docs/adr/0160-damaged-rows-are-told-apart-from-bugs.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType

from antiphon_core import damage, events, response
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.lineage import ResolvedItem
from antiphon_core.ports.prompts import Prompt
from antiphon_core.ports.store import UNFINISHED, Record, Status
from antiphon_core.ports.translator import Batch, Final, Turn
from antiphon_core.request.context import CONFIGURATION
from antiphon_edge.prompt_rendering import variables_of

_OF_ANY_ITEM: Mapping[str, type] = {"id": str, "type": str}
_OF_ITEM: Mapping[str, Mapping[str, type]] = {
    "message": {"role": str},
    "function_call_output": {"call_id": str},
    "custom_tool_call_output": {"call_id": str},
    CONFIGURATION: {"reasoning": dict, "text": dict},
}
"""The types of the members that the edge reads, by the type of an item. Others of the same name are a client's own."""


def response_of(record: Record) -> Object:
    """A stored response as an object. While it is unfinished, its status comes from the record: the body is older."""
    with damage.reading(f"response '{record.id}'"):
        found = _object(record.body) | {"output": _objects(record.output_items)}
        if record.status in UNFINISHED:
            found["status"] = record.status.value
        return found


def response_json(record: Record) -> bytes:
    """A stored response as its clients see it."""
    found = response_of(record)
    return dumps(found) if record.status in UNFINISHED else response.join(record.body, record.output_items)


def body_of(record: Record) -> Object:
    """A stored response without its output items."""
    with damage.reading(f"response '{record.id}'"):
        return _object(record.body)


def history_of(turn: Turn) -> list[Object]:
    """The items of a turn's history."""
    with damage.reading(f"the history of '{turn.response_id}'"):
        return _items(turn.history)


def items_by_id(found: Sequence[ResolvedItem]) -> dict[str, Object]:
    """Items that were looked up by their ids."""
    items = {}
    for each in found:
        with damage.reading(f"item '{each.id}'"):
            (items[each.id],) = _items(b"[%b]" % each.item)
    return items


def prompt_of(prompt: Prompt) -> Object:
    """The content of a stored prompt: its instructions, and its messages with a text or parts each."""
    with damage.reading(f"prompt '{prompt.id}'"):
        content = _object(prompt.content)
        for message in _items(dumps(content.get("input", []))):
            _require({"role", "content"} <= message.keys())
        variables_of(content)  # reads each text
        return content


def metadata_of(conversation: Conversation) -> Object:
    """The metadata of a conversation."""
    with damage.reading(f"conversation '{conversation.id}'"):
        metadata = _object(conversation.metadata)
        _require(set(map(type, metadata.values())) <= {str})
        return metadata


def batch_of(log_id: str, stored: EventBatch) -> Batch:
    """The events of a log in one batch. A terminal batch has the final state of the response.

    Events of types that this release does not know are passed on, and counted where they are folded."""
    with damage.reading(f"the event log of '{log_id}'"):
        found = events.decode(stored.frames)
        numbers = [event["sequence_number"] for event in found]
        _require(numbers == list(range(stored.first_sequence, stored.first_sequence + stored.count)))
        _require(stored.frames.count(b"\n\n") == stored.count and stored.frames.endswith(b"\n\n"))
        _require({type(event["type"]) for event in found} == {str})
        final = _final_of(found[-1]) if stored.terminal else None
    return Batch(stored.first_sequence, stored.count, stored.frames, final)


def _final_of(event: Object) -> Final:
    _require(event["type"] in events.TERMINAL)
    ended: Object = event["response"]
    final = Final(Status(ended["status"]), *response.split(ended))
    _objects(final.output_items)
    if final.status is Status.FAILED:
        response.error_of(ended)
    return final


def _items(array: bytes) -> list[Object]:
    items = _objects(array)
    for item in items:
        _require_types(item, _OF_ANY_ITEM)
        _require_types(item, _OF_ITEM.get(item.get("type") or "message", {}))
    return items


def _require_types(item: Object, members: Mapping[str, type]) -> None:
    _require(all(type(item.get(name)) in (wanted, NoneType) for name, wanted in members.items()))


def _objects(array: bytes) -> list[Object]:
    found: list[Object] = loads(array)
    _require(type(found) is list and set(map(type, found)) <= {dict})
    return found


def _object(text: bytes) -> Object:
    found: Object = loads(text)
    _require(type(found) is dict)
    return found


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError
