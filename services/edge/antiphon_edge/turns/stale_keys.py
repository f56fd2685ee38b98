"""Idempotency keys whose first request left nothing behind.

The edge of a first request can die before it has stored a job, a log or a record that another edge could continue.
Without this module the key would stay claimed until the claim expires, and requests with the key would fail until then.
"""

from __future__ import annotations

import asyncio

from antiphon_core.ports.store import ResponseStore
from antiphon_edge.turns.accepted_turn import RepeatedRequest


class StaleKey:
    """Notes, for one repeated request, since when the first request of its key has left nothing."""

    def __init__(self, store: ResponseStore, *, stale_after_s: float) -> None:
        self._store = store
        self._stale_after_s = stale_after_s
        self._response_id = ""
        self._until_s = 0.0

    async def release_if_stale(self, repeated: RepeatedRequest) -> None:
        """Releases the key if its first request has left nothing for `stale_after_s`. Call it each time that nothing is
        found. An edge that was only slow then finds the key with another request, and stores nothing."""
        now_s = asyncio.get_running_loop().time()
        if repeated.response_id != self._response_id:
            self._response_id, self._until_s = repeated.response_id, now_s + self._stale_after_s
        elif now_s >= self._until_s:
            await self._store.abort_turn(
                repeated.tenant, None, idempotency_key=repeated.key, response_id=repeated.response_id
            )
