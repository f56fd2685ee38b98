"""The state of a response by its event log so far: all that is needed to continue the response."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial

from antiphon_core import damage, offload
from antiphon_core.errors import LogNotFound
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object
from antiphon_core.ports.event_logs import EventLogs
from antiphon_core.ports.translator import Batch

_ID_TYPE = "q"  # eight bytes for each id, where a list needs 36


@dataclass
class LogState:
    """`fold` is the response that the events add up to, `token_ids` the tokens that the model generated for them."""

    fold: Fold = field(default_factory=Fold)
    token_ids: array[int] = field(default_factory=lambda: array(_ID_TYPE))
    is_over: bool = False
    """Whether the log has its terminal event."""

    @property
    def next_sequence(self) -> int:
        """The number of the next event."""
        return self.fold.next_sequence

    @property
    def output(self) -> Sequence[Object]:
        """The output items so far."""
        items: Sequence[Object] = self.fold.response().get("output", ()) if self.next_sequence else ()
        return items

    def feed(self, batch: Batch) -> None:
        """Adds the next events, and the token ids that the model generated for them."""
        self.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        self.token_ids.extend(batch.token_ids)

    def can_be_continued(self) -> bool:
        """Whether a translator can continue the response: its token ids are known, or it has no output."""
        return bool(self.token_ids) or not self.output


async def read(logs: EventLogs, tenant: str, response_id: str) -> LogState:
    """Reads the state of a log; an empty one if there is no log. Its events are parsed off the event loop if they are
    large.

    Raises:
        DataDamaged: they are not the events of a response.
    """
    state = await read_unparsed(logs, tenant, response_id)
    await parse(state, response_id)
    return state


async def read_unparsed(logs: EventLogs, tenant: str, response_id: str) -> LogState:
    """Does what `read` does, but does not parse the last events yet. DataDamaged."""
    state = LogState()
    with damage.reading(f"the event log of '{response_id}'"), suppress(LogNotFound):
        async with aclosing(logs.read_events(tenant, response_id)) as batches:
            async for batch in batches:
                state.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
                state.is_over = batch.terminal
                for checkpoint in batch.checkpoints:
                    state.token_ids[checkpoint.offset :] = array(_ID_TYPE, checkpoint.token_ids)
    return state


async def parse(state: LogState, response_id: str) -> None:
    """Parses the events of a state that `read_unparsed` has read. DataDamaged."""
    with damage.reading(f"the event log of '{response_id}'"):
        await offload.run(partial(_require_response, state.fold), size_bytes=state.fold.size_bytes)


def _require_response(fold: Fold) -> None:
    """TypeError: the events do not add up to a response."""
    made = fold.response()
    if made and not (type(made) is dict and all(type(each) is dict for each in made.get("output") or ())):
        raise TypeError
