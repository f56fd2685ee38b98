"""Stream slots: a tenant's share of concurrent streams. A request holds one, and so does the work that goes on
behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class StreamSlot:
    """One slot, given back when its last holder lets go."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._holders = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                self._give_back()

    @contextmanager
    def held_by_request(self) -> Iterator[None]:
        """Holds the slot in this task. Tasks that it starts can hold it too, with `held_on_to`."""
        former = _of_request.set(self)
        try:
            with self.held():
                yield
        finally:
            _of_request.reset(former)


@contextmanager
def held_on_to() -> Iterator[None]:
    """Holds the slot of the request that began this task, if it has one, also when the request is over."""
    slot = _of_request.get()
    if slot is None:
        yield
        return
    with slot.held():
        yield


_of_request: ContextVar[StreamSlot | None] = ContextVar("_of_request", default=None)
