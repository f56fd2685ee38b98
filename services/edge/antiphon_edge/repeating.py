"""A request that comes again under its idempotency key: it is answered with what the first one said, or says now."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon_core.errors import LogNotFound
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.translator import Batch
from antiphon_edge.begun import Repeated
from antiphon_edge.following import FIRST_EVENT_S, Followings


class Repetitions:
    """Answers repeated requests. One instance serves all of a process."""

    def __init__(self, store: FullStore) -> None:
        self._store = store
        self._followings = Followings(store)

    async def stream(self, repeated: Repeated) -> AsyncGenerator[Batch, None]:
        """The events of the first request: as they were logged, or told again when the log is gone."""
        told = False
        try:
            patience_s = FIRST_EVENT_S if repeated.record is None else 0
            stream = self._followings.stream(repeated.tenant, repeated.response_id, patience_s=patience_s)
            async with aclosing(stream) as batches:
                async for batch in batches:
                    told = True
                    yield batch
        except LogNotFound:
            if told or repeated.record is None:
                raise
            async for batch in self._followings.told_again(repeated.record):
                yield batch
