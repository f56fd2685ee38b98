"""The kinds of output items: how each looks, and which events open it, extend it and close it.

One `ItemKind` per kind. The machine knows when an item opens, grows and closes; what that means for a message or, one
day, a function call is said here and nowhere else. A new kind is a new row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from antiphon_core import events
from antiphon_core.events import frame
from antiphon_core.jsons import Object, dumps

Event = Object
EventBuilder = Callable[["OpenItem"], Event]


@dataclass(frozen=True, slots=True)
class ItemKind:
    """One kind of item.

    `added(id)` is the item as it begins, `with_text(item, text)` the same item with what its deltas added up to.
    `opening` and `closing` build the events around the deltas, in order; `delta` builds an example of a delta event,
    with `sequence_number` before `delta`.
    """

    id_prefix: str
    added: Callable[[str], Object]
    opening: tuple[EventBuilder, ...]
    delta: Callable[[OpenItem], Event]
    closing: tuple[EventBuilder, ...]
    with_text: Callable[[Object, str], Object]


class OpenItem:
    """The item that is being written. `status` is what it has, or what it is being closed with."""

    __slots__ = ("_delta_frame", "_pieces", "id", "kind", "output_index", "status")

    def __init__(self, kind: ItemKind, item_id: str, *, output_index: int) -> None:
        self.kind = kind
        self.id = item_id
        self.output_index = output_index
        self.status = "in_progress"
        self._pieces: list[str] = []
        self._delta_frame = _frame_template(kind.delta(self))

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def append(self, text: str, sequence_number: int) -> bytes:
        """Takes the next piece of text and returns the frame of its delta event.

        This is the one event that happens per token, so it is put together from bytes and never is a dict.
        """
        self._pieces.append(text)
        return self._delta_frame % (sequence_number, dumps(text))

    def as_object(self) -> Object:
        """The item as of now."""
        return self.kind.with_text(self.kind.added(self.id), self.text) | {"status": self.status}


def _frame_template(example: Event) -> bytes:
    """The frame of a delta event with its sequence number and its text still to be filled in, in this order."""
    members = [
        dumps(name) + b":" + _PLACEHOLDERS.get(name, dumps(value).replace(b"%", b"%%"))
        for name, value in example.items()
    ]
    return frame(example["type"], b"{" + b",".join(members) + b"}")


_PLACEHOLDERS = {"sequence_number": b"%d", "delta": b"%b"}


def _item_added(item: OpenItem) -> Event:
    added = item.kind.added(item.id)
    return {"type": events.OUTPUT_ITEM_ADDED, "output_index": item.output_index, "item": added}


def _item_done(item: OpenItem) -> Event:
    return {"type": events.OUTPUT_ITEM_DONE, "output_index": item.output_index, "item": item.as_object()}


def _within(item: OpenItem, event_type: str, **members: object) -> Event:
    """An event about the item's only content part."""
    place = {"item_id": item.id, "output_index": item.output_index, "content_index": 0}
    return {"type": event_type, **place, **members}


def _output_text(text: str) -> Object:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(item_id: str) -> Object:
    return {"id": item_id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}


MESSAGE = ItemKind(
    id_prefix="msg",
    added=_message,
    opening=(
        _item_added,
        lambda item: _within(item, events.CONTENT_PART_ADDED, part=_output_text("")),
    ),
    delta=lambda item: _within(item, events.OUTPUT_TEXT_DELTA, sequence_number=0, delta="", logprobs=[]),
    closing=(
        lambda item: _within(item, events.OUTPUT_TEXT_DONE, text=item.text, logprobs=[]),
        lambda item: _within(item, events.CONTENT_PART_DONE, part=_output_text(item.text)),
        _item_done,
    ),
    with_text=lambda item, text: item | {"content": [_output_text(text)]},
)
