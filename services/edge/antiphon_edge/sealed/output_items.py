"""Changes finished output items in a batch: in `response.output_item.done`, the terminal event and the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from antiphon_core import events
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Batch

_DONE = f"event: {events.OUTPUT_ITEM_DONE}\n".encode()


def changed(batch: Batch, mark: bytes, change: Callable[[Object], Object]) -> Batch:
    """The batch with every finished item changed. Batches that do not contain the bytes `mark` are not decoded."""
    if mark not in batch.frames or (batch.final is None and _DONE not in batch.frames):
        return batch
    frames = b"".join(events.encode(_changed_event(event, change)) for event in events.decode(batch.frames))
    if batch.final is None:
        return replace(batch, frames=frames)
    items = dumps([change(item) for item in loads(batch.final.output_items)])
    return replace(batch, frames=frames, final=replace(batch.final, output_items=items))


def _changed_event(event: Object, change: Callable[[Object], Object]) -> Object:
    if event["type"] == events.OUTPUT_ITEM_DONE:
        return event | {"item": change(event["item"])}
    if event["type"] in events.TERMINAL:
        output = [change(item) for item in event["response"]["output"]]
        return event | {"response": event["response"] | {"output": output}}
    return event
