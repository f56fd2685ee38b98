"""Bounds the long requests and histories of a tenant that one process prepares at once, by their bytes.

A turn of 9 MB is parsed, rendered and encoded in calls of 10 to 40 ms each that keep the GIL, in the edge, the
translator and the store. Four clients that send such turns kept all three busy, and a small turn of another tenant took
4 to 17 times its time alone; beside one such client it took twice its time. So each tenant has a budget. Its further
long work waits in line, and is rejected with 429 where the line is too long. Short work neither counts nor waits.

While other tenants send requests, too, a tenant's long work also rests as long as it took, so that it has half of the
time at most: one piece after another left small turns no moment in which nothing keeps the GIL.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
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
REST_MAX_S = 2.0
"""The longest rest. A piece of work can take long because a translator or store is slow, which burdens nobody else."""
ACTIVE_S = 1.0
"""How long a tenant is active after a request."""


@dataclass(slots=True)
class _Share:
    """The long work of one tenant."""

    held_bytes: int = 0
    rests_until_s: float = 0.0  # 0: it does not rest
    line: deque[tuple[asyncio.Future[None], int]] = field(default_factory=deque)

    def has_room(self, size: int, bytes_max: int) -> bool:
        """Whether more work may begin. Work that is larger than the budget passes alone."""
        return not self.rests_until_s and (not self.held_bytes or self.held_bytes + size <= bytes_max)

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
        self._active_s: dict[str, float] = {}  # the two tenants that sent the last requests, and when
        self._read_bytes: dict[str, int] = {}  # the average of each tenant whose last reads were long

    def note_request(self, tenant: str) -> None:
        """Notes that a tenant is active."""
        self._active_s.pop(tenant, None)
        self._active_s[tenant] = _now_s()
        if len(self._active_s) > 2:
            del self._active_s[next(iter(self._active_s))]

    def reserve(self, tenant: str, size: int) -> AbstractAsyncContextManager[Callable[[], None] | None]:
        """Holds `size` bytes of the tenant's budget in the block, or until the function that it yields is called. It is
        None for short work, which holds nothing. RequestRateExceeded: too much waits."""
        return self._reserve(tenant, size) if self._bytes_max and size > SHORT_BYTES_MAX else nullcontext()

    @asynccontextmanager
    async def _reserve(self, tenant: str, size: int) -> AsyncIterator[Callable[[], None]]:
        await self._take(tenant, size)
        with self._given_back(tenant, size) as give_back:
            yield give_back

    @asynccontextmanager
    async def reading(self, tenant: str) -> AsyncIterator[Callable[[int], None]]:
        """Holds as many bytes in the block as the tenant's last reads had on average: the size of an answer of the
        store is known too late. Call the function that it yields with that size."""
        async with self.reserve(tenant, self._read_bytes.get(tenant, 0)):
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
            raise self._rate_error()
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
                raise self._rate_error() from None
            raise

    @contextmanager
    def _given_back(self, tenant: str, size: int) -> Iterator[Callable[[], None]]:
        is_held, began_s = True, _now_s()

        def give_back() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                share = self._shares[tenant]
                share.held_bytes -= size
                self._rest(tenant, share, _now_s() - began_s)
                self._tidy(tenant, share)

        try:
            yield give_back
        finally:
            give_back()

    def _rest(self, tenant: str, share: _Share, took_s: float) -> None:
        """Lets the tenant's long work rest as long as a piece of it took, if another tenant is active."""
        now_s = _now_s()
        if any(each != tenant and now_s - at_s <= ACTIVE_S for each, at_s in self._active_s.items()):
            share.rests_until_s = max(share.rests_until_s, now_s + min(took_s, REST_MAX_S))
            asyncio.get_running_loop().call_at(share.rests_until_s, self._end_rest, tenant, share, share.rests_until_s)

    def _end_rest(self, tenant: str, share: _Share, until_s: float) -> None:
        """Ends the rest, unless it became longer. The timers of uvloop may be a millisecond early by its clock."""
        if share.rests_until_s == until_s:
            share.rests_until_s = 0.0
            self._tidy(tenant, share)

    def _tidy(self, tenant: str, share: _Share) -> None:
        """Lets work pass, and forgets a share that is not used any more."""
        share.admit(self._bytes_max)
        if not share.held_bytes and not share.line and not share.rests_until_s and self._shares.get(tenant) is share:
            del self._shares[tenant]

    def _rate_error(self) -> RequestRateExceeded:
        metrics.ADMISSION_REJECTED.of("long").add()
        return RequestRateExceeded(
            f"Rate limit reached on long requests and histories: the server prepares {self._bytes_max} bytes of yours "
            "at once (its setting edge.long_bytes_per_tenant), and too many more wait. Please try again later, or send "
            "shorter ones.",
            retry_after_ms=RETRY_MS,
        )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
