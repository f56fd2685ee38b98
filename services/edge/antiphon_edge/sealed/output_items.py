"""Changes finished output items wherever they are sent: in `response.output_item.done` and in the terminal event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from antiphon_core import events
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.translator import Batch

_DONE = f"event: {events.OUTPUT_ITEM_DONE}\n".encode()


def changed(batch: Batch, mark: bytes, change: Callable[[Object], Object]) -> Batch:
    """The batch with every finished item changed. Batches without the `mark` of such items are passed on as they are,
    and pay nothing."""
    if mark not in batch.frames or (batch.final is None and _DONE not in batch.frames):
        return batch
    frames = b"".join(events.encode(_told(event, change)) for event in events.decode(batch.frames))
    if batch.final is None:
        return replace(batch, frames=frames)
    items = dumps([change(item) for item in loads(batch.final.output_items)])
    return replace(batch, frames=frames, final=replace(batch.final, output_items=items))


def _told(event: Object, change: Callable[[Object], Object]) -> Object:
    if event["type"] == events.OUTPUT_ITEM_DONE:
        return event | {"item": change(event["item"])}
    if event["type"] in events.TERMINAL:
        output = [change(item) for item in event["response"]["output"]]
        return event | {"response": event["response"] | {"output": output}}
    return event
