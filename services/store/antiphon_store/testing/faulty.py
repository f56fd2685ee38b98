"""A backend that breaks when told to: before an atom, after it (the fault that everybody forgets), or by being slow.

For tests of whoever stands above a backend. Nothing in a running system uses it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.wrapper import Call, Wrapper


class When(Enum):
    BEFORE = auto()  # the atom does not happen
    AFTER = auto()  # the atom happens, its answer gets lost


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one call of `atom` (a method's name, or "*" for any)."""

    atom: str
    when: When
    error: type[AntiphonError] | None = StoreUnavailable  # None: the atom is only slow
    delay_s: float = 0.0


class FaultyBackend(Wrapper):
    """Faults are used up in the order in which they were planned."""

    def __init__(self, inner: StoreEngine) -> None:
        super().__init__(inner)
        self._planned: deque[Fault] = deque()

    def plan(self, *faults: Fault) -> None:
        self._planned.extend(faults)

    def heal(self) -> None:
        """Nothing is planned any more."""
        self._planned.clear()

    async def around(self, call: Call) -> Any:
        fault = self._next_fault(call.atom)
        if fault is None:
            return await call.run()
        await asyncio.sleep(fault.delay_s)
        if fault.when is When.BEFORE and fault.error is not None:
            raise fault.error("An injected fault.")
        answer = await call.run()
        if fault.error is not None:
            raise fault.error("An injected fault.")
        return answer

    def _next_fault(self, atom: str) -> Fault | None:
        if self._planned and self._planned[0].atom in ("*", atom):
            return self._planned.popleft()
        return None
