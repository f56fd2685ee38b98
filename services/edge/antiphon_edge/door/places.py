"""A place among the responses that a tenant has in progress at once: a request holds it, and so does what the request
began and does not end with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Place:
    """Given back when nobody holds it any more."""

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
        """By this task, and by whoever of those that it begins holds on."""
        former = _of_request.set(self)
        try:
            with self.held():
                yield
        finally:
            _of_request.reset(former)


@contextmanager
def held_on_to() -> Iterator[None]:
    """Holds the place of the request that began this task, if it has one, also when the request is over."""
    place = _of_request.get()
    if place is None:
        yield
        return
    with place.held():
        yield


_of_request: ContextVar[Place | None] = ContextVar("_of_request", default=None)
