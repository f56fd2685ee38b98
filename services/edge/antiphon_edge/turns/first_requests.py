"""The first request under an idempotency key, as whoever repeats it sees it.

Its edge can die before there is anything that others could go on with: a job, a log, a record. The key would be its own
until the claim has run out, and every repetition would be turned away until then.
"""

from __future__ import annotations

import asyncio

from antiphon_core.ports.store import ResponseStore
from antiphon_edge.turns.begun import Repeated

PATIENCE_S = 10.0
"""How long a first request may come to nothing before its key is given to those who repeat it."""


class FirstRequest:
    """For one request that is made again and again, each time that there was nothing to be had of the first."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._response_id = ""
        self._until_s = 0.0

    async def came_to_nothing(self, repeated: Repeated) -> None:
        """Frees the key of one of which that has been so for too long. If its edge is only slow it will find the key
        taken, and what it began is not stored."""
        now_s = asyncio.get_running_loop().time()
        if repeated.response_id != self._response_id:
            self._response_id, self._until_s = repeated.response_id, now_s + PATIENCE_S
        elif now_s >= self._until_s:
            await self._store.abort_turn(
                repeated.tenant, None, idempotency_key=repeated.key, response_id=repeated.response_id
            )
