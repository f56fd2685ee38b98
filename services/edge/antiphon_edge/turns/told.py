"""What was said of a response so far, read from its log by whoever goes on with it."""

from __future__ import annotations

from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from antiphon_core.errors import LogNotFound
from antiphon_core.fold import Fold
from antiphon_core.ports.event_logs import EventLogs


@dataclass
class Told:
    """`fold` is what the events add up to, `token_ids` what the model said in them."""

    fold: Fold = field(default_factory=Fold)
    token_ids: list[int] = field(default_factory=list)
    is_over: bool = False


async def read(logs: EventLogs, tenant: str, response_id: str) -> Told:
    """Nothing, if there is no log."""
    told = Told()
    with suppress(LogNotFound):
        async with aclosing(logs.read_events(tenant, response_id)) as batches:
            async for batch in batches:
                told.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
                told.is_over = batch.terminal
                for checkpoint in batch.checkpoints:
                    told.token_ids[checkpoint.offset :] = checkpoint.token_ids
    return told
