"""Fault injection for tests of the store's callers: a call that fails before it runs, after it ran, or that is slow."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_store.service import StoreService
from antiphon_store.testing.wrapper import Call, Wrapper


class When(Enum):
    BEFORE = auto()  # the operation does not happen
    AFTER = auto()  # the operation happens, its answer gets lost


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one call of `operation` (a method's name, or "*" for any)."""

    operation: str
    when: When
    error: type[AntiphonError] | None = StoreUnavailable  # None: the operation is only slow
    delay_s: float = 0.0


class FaultyStore(Wrapper):
    """A store that fails as planned: each fault is used once, in order. Several stores may share a plan."""

    def __init__(self, inner: StoreService, plan: deque[Fault] | None = None) -> None:
        super().__init__(inner)
        self.planned: deque[Fault] = deque() if plan is None else plan

    def plan(self, *faults: Fault) -> None:
        self.planned.extend(faults)

    def heal(self) -> None:
        """Cancels the planned faults."""
        self.planned.clear()

    async def around(self, call: Call) -> Any:
        fault = self._next_fault(call.operation)
        if fault is None:
            return await call.run()
        await asyncio.sleep(fault.delay_s)
        if fault.when is When.BEFORE and fault.error is not None:
            raise fault.error("An injected fault.")
        answer = await call.run()
        if fault.error is not None:
            raise fault.error("An injected fault.")
        return answer

    def _next_fault(self, operation: str) -> Fault | None:
        if self.planned and self.planned[0].operation in ("*", operation):
            return self.planned.popleft()
        return None
