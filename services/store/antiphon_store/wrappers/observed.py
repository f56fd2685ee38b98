"""A backend that tells how each atom went: how long it took, and with which error it ended if with one."""

from __future__ import annotations

from typing import Any, Protocol

from antiphon_core.clock import Clock, SystemClock
from antiphon_store.backends.engine import StoreEngine
from antiphon_store.wrappers.wrapper import Call, Wrapper


class Observe(Protocol):
    def __call__(self, atom: str, seconds: float, error: BaseException | None) -> None:
        """Called once at the end of every call of an atom: counters, errors by class and histograms follow from it.

        It must not block and not raise: the write that it is told of has happened."""


class ObservedBackend(Wrapper):
    """Tells `observe` of every call. A caller that gives up is seen as CancelledError."""

    def __init__(self, inner: StoreEngine, observe: Observe, *, clock: Clock | None = None) -> None:
        super().__init__(inner)
        self._observe = observe
        self._clock = clock or SystemClock()

    async def around(self, call: Call) -> Any:
        started = self._clock.monotonic()
        try:
            answer = await call.run()
        except BaseException as error:
            self._observe(call.atom, self._clock.monotonic() - started, error)
            raise
        self._observe(call.atom, self._clock.monotonic() - started, None)
        return answer
