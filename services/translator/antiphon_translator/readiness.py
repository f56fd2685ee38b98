"""Whether an engine can be asked now: the answer of its own probe, remembered for a short while.

Readiness is asked for by every health check and every list of models; the engine is asked once per `ttl_s`, and callers
that come meanwhile wait for the same answer. An engine that does not answer for ANSWER_S, as one that is frozen, is not
ready.
"""

from __future__ import annotations

import asyncio
import logging

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError
from antiphon_translator.engines.base import Engine

log = logging.getLogger(__name__)

ANSWER_S = 1.5


class Readiness:
    """The readiness of one engine."""

    def __init__(self, engine: Engine, clock: Clock, *, ttl_s: float) -> None:
        self._engine = engine
        self._clock = clock
        self._ttl_s = ttl_s
        self._lock = asyncio.Lock()
        self._asked_at: float | None = None
        self._reason = ""

    async def reason(self) -> str:
        """Why the engine is not ready; empty when it is."""
        async with self._lock:
            if self._asked_at is None or self._clock.monotonic() - self._asked_at >= self._ttl_s:
                self._reason = await self._ask()
                self._asked_at = self._clock.monotonic()
            return self._reason

    def doubt(self) -> None:
        """The engine just failed: ask it again when somebody wants to know."""
        self._asked_at = None

    async def _ask(self) -> str:
        reason = ""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._engine.ready()
        except TimeoutError:
            reason = "The engine does not answer."
        except AntiphonError as error:
            reason = error.message
        if reason:
            log.info("engine not ready: %s", reason)
        return reason
