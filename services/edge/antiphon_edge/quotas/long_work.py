"""Bounds the long requests and histories of a tenant that one process prepares at once, by their bytes.

A turn of 9 MB is parsed, rendered and encoded in calls of 10 to 40 ms each that keep the GIL, in the edge, the
translator and the store. Four clients that send such turns kept all three busy, and a small turn of another tenant took
4 to 17 times its time alone; beside one such client it took twice its time. So each tenant has a budget. Its further
long work waits in line, and is rejected with 429 where the line is too long. Short work neither counts nor waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from antiphon_core.errors import RequestRateExceeded
from antiphon_core.offload import MEDIUM_BYTES_MAX
from antiphon_core.telemetry import metrics

SHORT_BYTES_MAX = MEDIUM_BYTES_MAX
"""Work of this size passes at once: it runs in the lane for medium work, or inline."""
LINE = 16
"""How many times the budget may wait in line."""
WAIT_MAX_S = 15.0
"""How long work waits in line. The lease of a session, which a waiting turn holds, lasts longer."""
RETRY_MS = 2_000


@dataclass(slots=True)
class _Share:
    """The long work of one tenant."""

    held_bytes: int = 0
    line: deque[tuple[asyncio.Future[None], int]] = field(default_factory=deque)

    def has_room(self, size: int, bytes_max: int) -> bool:
        """Whether more work fits. Work that is larger than the budget passes alone."""
        return not self.held_bytes or self.held_bytes + size <= bytes_max

    def admit(self, bytes_max: int) -> None:
        """Lets the first in line pass as far as there is room."""
        while self.line and (self.line[0][0].done() or self.has_room(self.line[0][1], bytes_max)):
            waiting, size = self.line.popleft()
            if not waiting.done():
                self.held_bytes += size
                waiting.set_result(None)


class LongWork:
    """The budgets of all tenants. A process has one instance."""

    def __init__(self, bytes_max: int = 0, *, wait_max_s: float = WAIT_MAX_S) -> None:
        """`bytes_max`: the setting long_bytes_per_tenant; 0 for no limit."""
        self._bytes_max = bytes_max
        self._wait_max_s = wait_max_s
        self._shares: dict[str, _Share] = {}
        self._read_bytes: dict[str, int] = {}  # the average of each tenant whose last reads were long

    @asynccontextmanager
    async def held(self, tenant: str, size: int) -> AsyncIterator[Callable[[], None]]:
        """Holds `size` bytes of the tenant's budget in the block, or until the function that it yields is called.
        RequestRateExceeded: too much waits."""
        if not self._bytes_max or size <= SHORT_BYTES_MAX:
            yield _nothing
            return
        await self._take(tenant, size)
        with self._given_back(tenant, size) as give_back:
            yield give_back

    @asynccontextmanager
    async def reading(self, tenant: str) -> AsyncIterator[Callable[[int], None]]:
        """Holds as many bytes in the block as the tenant's last reads had on average: the size of an answer of the
        store is known too late. Call the function that it yields with that size."""
        async with self.held(tenant, self._read_bytes.get(tenant, 0)):
            yield lambda size: self._note_read(tenant, size)

    def _note_read(self, tenant: str, size: int) -> None:
        average = (self._read_bytes.pop(tenant, 0) + size) // 2
        if average > SHORT_BYTES_MAX // 2:
            self._read_bytes[tenant] = average

    async def _take(self, tenant: str, size: int) -> None:
        share = self._shares.setdefault(tenant, _Share())
        if not share.line and share.has_room(size, self._bytes_max):
            share.held_bytes += size
            return
        if sum(each for _, each in share.line) + size > LINE * self._bytes_max:
            raise self._exceeded()
        place = asyncio.get_running_loop().create_future()
        share.line.append((place, size))
        try:
            async with asyncio.timeout(self._wait_max_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                share.held_bytes -= size
            place.cancel()
            self._tidy(tenant, share)
            if isinstance(error, TimeoutError):
                raise self._exceeded() from None
            raise

    @contextmanager
    def _given_back(self, tenant: str, size: int) -> Iterator[Callable[[], None]]:
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                share = self._shares[tenant]
                share.held_bytes -= size
                self._tidy(tenant, share)

        try:
            yield give_back
        finally:
            give_back()

    def _tidy(self, tenant: str, share: _Share) -> None:
        share.admit(self._bytes_max)
        if not share.held_bytes and not share.line:
            self._shares.pop(tenant, None)

    def _exceeded(self) -> RequestRateExceeded:
        metrics.ADMISSION_REJECTED.of("long").add()
        return RequestRateExceeded(
            f"Rate limit reached on long requests and histories: the server prepares {self._bytes_max} bytes of yours "
            "at once (its setting edge.long_bytes_per_tenant), and too many more wait. Please try again later, or send "
            "shorter ones.",
            retry_after_ms=RETRY_MS,
        )


def _nothing() -> None:
    pass
