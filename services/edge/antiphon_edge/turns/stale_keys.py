"""Idempotency keys whose first request left nothing behind.

The edge of a first request can die before there is a job, a log or a record that others could go on with. Its key would
stay taken until the claim expires, and every request that repeats it would be turned away until then.
"""

from __future__ import annotations

import asyncio

from antiphon_core.ports.store import ResponseStore
from antiphon_edge.turns.accepted_turn import RepeatedRequest


class StaleKey:
    """Watches one key for a request that repeats it."""

    def __init__(self, store: ResponseStore, *, stale_after_s: float) -> None:
        self._store = store
        self._stale_after_s = stale_after_s
        self._response_id = ""
        self._until_s = 0.0

    async def release_if_stale(self, repeated: RepeatedRequest) -> None:
        """To be called each time that the first request has nothing to show. Releases its key once that has been so for
        too long. An edge that was only slow finds the key taken then, and stores nothing."""
        now_s = asyncio.get_running_loop().time()
        if repeated.response_id != self._response_id:
            self._response_id, self._until_s = repeated.response_id, now_s + self._stale_after_s
        elif now_s >= self._until_s:
            await self._store.abort_turn(
                repeated.tenant, None, idempotency_key=repeated.key, response_id=repeated.response_id
            )
