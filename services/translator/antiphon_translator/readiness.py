"""The readiness of an engine: the result of its probe, cached for a short time.

Every health check and every list of models needs it. The engine is probed at most once per `ttl_s`, and callers that
come meanwhile wait for the same probe. An engine that does not answer within PROBE_TIMEOUT_S is not ready.
"""

from __future__ import annotations

import asyncio
import logging

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError
from antiphon_translator.engines.base import Engine

log = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 1.5


class Readiness:
    """The readiness of one engine."""

    def __init__(self, engine: Engine, clock: Clock, *, ttl_s: float) -> None:
        self._engine = engine
        self._clock = clock
        self._ttl_s = ttl_s
        self._lock = asyncio.Lock()
        self._probed_at: float | None = None
        self._invalidations = 0
        self._reason = ""

    async def reason(self) -> str:
        """Why the engine is not ready; empty when it is."""
        async with self._lock:
            if self._probed_at is None or self._clock.monotonic() - self._probed_at >= self._ttl_s:
                invalidations = self._invalidations
                self._reason = await self._probe()
                self._probed_at = self._clock.monotonic() if invalidations == self._invalidations else None
            return self._reason

    def invalidate(self) -> None:
        """Drops the cached result after a failure of the engine, so that the next caller probes it again. A probe that
        runs may have asked the engine before the failure, so the result of that probe is not cached."""
        self._probed_at = None
        self._invalidations += 1

    async def _probe(self) -> str:
        reason = ""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await self._engine.ready()
        except TimeoutError:
            reason = "The engine does not answer."
        except AntiphonError as error:
            reason = error.message
        if reason:
            log.info("engine not ready: %s", reason)
        return reason
