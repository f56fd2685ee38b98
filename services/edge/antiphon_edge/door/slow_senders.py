"""A client that stops in the middle of its request: a connection, and who waits for the rest, are not kept for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web


class BodyTimeout(web.RequestPayloadError):
    """Nothing of a body came for too long."""


class SenderWatch:
    """Watches one connection for a client that owes it something.

    `is_owed` says whether it does now, and `give_up` is called once, when it then sent nothing of use for `limit_s`."""

    def __init__(self, limit_s: float, is_owed: Callable[[], bool], give_up: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._is_owed = is_owed
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(limit_s, self._look)

    def heard(self) -> None:
        """The client sent what brings its request on."""
        self._heard_at = self._loop.time()

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        """One timer serves a connection for as long as it is open, whatever comes over it."""
        if not self._is_owed():
            self._timer = self._loop.call_later(self._limit_s, self._look)
        elif self._loop.time() < (due := self._heard_at + self._limit_s):
            self._timer = self._loop.call_at(due, self._look)
        else:
            self._give_up()
