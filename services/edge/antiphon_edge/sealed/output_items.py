"""Changes finished output items in a batch: in `response.output_item.done`, the terminal event and the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from antiphon_core import events
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Batch

_DONE = f"event: {events.OUTPUT_ITEM_DONE}\n".encode()
_WITH_ITEMS = (_DONE, *(f"event: {name}\n".encode() for name in events.TERMINAL))


def change_output(batch: Batch, mark: bytes, change: Callable[[Object], Object]) -> Batch:
    """The batch with every finished item changed. Batches that do not contain the bytes `mark` are not decoded."""
    if mark not in batch.frames or (batch.final is None and _DONE not in batch.frames):
        return batch
    frames = b"".join(_changed_frame(frame, change) for frame in events.frames_of(batch.frames))
    if batch.final is None:
        return replace(batch, frames=frames)
    items = dumps([change(item) for item in loads(batch.final.output_items)])
    return replace(batch, frames=frames, final=replace(batch.final, output_items=items))


def _changed_frame(frame: bytes, change: Callable[[Object], Object]) -> bytes:
    """The frame with its finished items changed. Other events are not decoded: those before a done item repeat its
    text."""
    if not frame.startswith(_WITH_ITEMS):
        return frame
    return b"".join(events.encode(_changed_event(event, change)) for event in events.decode(frame))


def _changed_event(event: Object, change: Callable[[Object], Object]) -> Object:
    if event["type"] == events.OUTPUT_ITEM_DONE:
        return event | {"item": change(event["item"])}
    if event["type"] in events.TERMINAL:
        output = [change(item) for item in event["response"]["output"]]
        return event | {"response": event["response"] | {"output": output}}
    return event
