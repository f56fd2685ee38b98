"""Stream slots: the concurrent streams of a tenant. A request holds one slot, and work that outlives the request keeps
it, with the place of its turn in the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from antiphon_edge.quotas.load_shedding import RunningTurn


class StreamSlot:
    """One slot with several holders. It is given back when the last holder ends."""

    def __init__(self, give_back: Callable[[], None], turn: RunningTurn | None = None) -> None:
        """`turn` is that of the request, if it generates a response. `give_back` ends it."""
        self._give_back = give_back
        self._holders = 0
        self.turn = turn

    @contextmanager
    def occupy(self) -> Iterator[None]:
        """Holds the slot during the block. Tasks that the block starts can call `held_by_task`."""
        former = _of_request.set(self)
        self._holders += 1
        try:
            yield
        finally:
            _of_request.reset(former)
            self._holders -= 1
            if self._holders == 0:
                self._give_back()


@contextmanager
def held_by_task() -> Iterator[None]:
    """Holds the slot of the request that started this task, if it has one, even after the request has ended."""
    slot = _of_request.get()
    if slot is None:
        yield
        return
    with slot.occupy():
        yield


def hold_bytes(size: int) -> None:
    """Counts bytes that the turn of this request holds until it ends. Does nothing for a request without a turn.
    RequestRateExceeded, Unavailable: there is no room for them."""
    slot = _of_request.get()
    if slot is not None and slot.turn is not None:
        slot.turn.bytes.add(size)


_of_request: ContextVar[StreamSlot | None] = ContextVar("_of_request", default=None)
