"""Rate limits of tenants: requests per minute, tokens per minute, and concurrent responses.

Admission makes one call to the counter (counting.py), which checks all three: whether a request is left, whether tokens
are left, and whether a stream slot is free. The tokens of a response are known when the response ends, and are charged
then, in the background (settling.py). A charge is never rejected: it can overdraw the bucket, and then requests are
rejected until the bucket has refilled.

A request holds one stream slot of its tenant, and work that outlives the request keeps the slot, with the place of its
turn in the process.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self
from weakref import WeakValueDictionary

from antiphon_core.clock import Clock
from antiphon_core.errors import RequestRateExceeded, TokenRateExceeded
from antiphon_core.ids import Ids
from antiphon_core.ports.quotas import Draw, Hold, Level, QuotaAnswer, QuotaRequest, Quotas, Shortage
from antiphon_core.process_load import ProcessLoad
from antiphon_core.quotas import MINUTE_MS, TINY
from antiphon_core.telemetry import metrics
from antiphon_edge.access_settings import STREAM_SLOT_TTL_S, AccessSettings
from antiphon_edge.quotas.load_shedding import LoadLimits, LoadShedder, RunningTurn
from antiphon_edge.quotas.settling import QuotaSettler

REQUESTS, TOKENS = "requests", "tokens"  # names of the buckets, as headers and errors show them
STREAM_RETRY_MS = 1_000  # a guess: the time when a running response ends is unknown


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The limits of one tenant, for all edges together; 0 for no limit."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    streams: int = 0

    @classmethod
    def of(cls, settings: AccessSettings) -> Self:
        return cls(settings.requests_per_minute, settings.tokens_per_minute, settings.streams_per_tenant)

    @property
    def has_any(self) -> bool:
        return bool(self.requests_per_minute or self.tokens_per_minute or self.streams)


@dataclass(frozen=True, slots=True)
class Quota:
    """The state of one quota, for the rate limit headers. `kind` is `requests` or `tokens`; `reset_s` is the time until
    the bucket is full."""

    kind: str
    limit: int
    remaining: int
    reset_s: float


class BucketLevels:
    """The levels of one tenant's buckets: those that the counter reported last, extrapolated to the present."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._levels: dict[str, Level] = {}
        self._updated_ms: dict[str, float] = {}

    def update(self, levels: Sequence[Level]) -> None:
        for level in levels:
            self._levels[level.name] = level
            self._updated_ms[level.name] = self._now_ms()

    def draw(self, bucket: str, amount: int) -> None:
        """Subtracts `amount` from the known level, until the counter reports the new one."""
        level = self._levels.get(bucket)
        if level is not None:
            now, full_in_ms = self._extrapolate(level)
            full_in_ms += math.ceil(amount * MINUTE_MS / level.capacity)  # the capacity is a minute's refill
            self.update([Level(bucket, now - amount, level.capacity, round(full_in_ms))])

    def quotas(self) -> Sequence[Quota]:
        return [self._quota(self._levels[name]) for name in sorted(self._levels)]

    def _quota(self, level: Level) -> Quota:
        now, full_in_ms = self._extrapolate(level)
        return Quota(level.name, math.floor(level.capacity), max(0, math.floor(now + TINY)), full_in_ms / 1000)

    def _extrapolate(self, level: Level) -> tuple[float, float]:
        """The present level, and the milliseconds until the bucket is full."""
        elapsed_ms = self._now_ms() - self._updated_ms[level.name]
        if elapsed_ms >= level.full_in_ms:
            return level.capacity, 0.0
        grown = (level.capacity - level.level) * elapsed_ms / level.full_in_ms
        return level.level + grown, level.full_in_ms - elapsed_ms

    def _now_ms(self) -> float:
        return self._clock.monotonic() * 1000


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


class RateLimiter:
    """Admits requests, and charges the tokens of tenants. A process has one instance."""

    def __init__(
        self,
        limits: RateLimits,
        counts: Quotas,
        *,
        clock: Clock,
        ids: Ids,
        slot_ttl_s: float = STREAM_SLOT_TTL_S,
        shedder: LoadShedder | None = None,
    ) -> None:
        """`slot_ttl_s`: how long stream slots stay taken after their edge has died. Without a `shedder` the process has
        no load limits."""
        self.shedder = shedder or LoadShedder(LoadLimits(), ProcessLoad())
        self.has_limits = limits.has_any
        self._limits = limits
        self._counts = counts
        self._clock = clock
        self._ids = ids
        self._draws = {generates: _draws_of(limits, generates=generates) for generates in (False, True)}
        self._slot_ttl_ms = round(slot_ttl_s * 1000)
        self._settling = QuotaSettler(
            counts, ttl_s=slot_ttl_s, charge_of=self._charge_of, on_answer=self._update_levels
        )
        self._levels_by_tenant: WeakValueDictionary[str, BucketLevels] = WeakValueDictionary()

    @property
    def counts_tokens(self) -> bool:
        """Whether `charge` has an effect. If not, callers need not look up the tokens of a response."""
        return self._limits.tokens_per_minute > 0

    def levels_of(self, tenant: str) -> BucketLevels:
        """The bucket levels of a tenant. They are updated as long as a caller has a reference to them."""
        levels = self._levels_by_tenant.get(tenant)
        if levels is None:
            levels = self._levels_by_tenant[tenant] = BucketLevels(self._clock)
        return levels

    async def admit(self, tenant: str, *, generates: bool) -> None:
        """Counts a request. One that `generates` needs tokens left. Raises RequestRateExceeded or TokenRateExceeded."""
        if draws := self._draws[generates]:
            self._require(tenant, await self._counts.take_quota(tenant, QuotaRequest(draws)))

    @asynccontextmanager
    async def running(self, tenant: str, *, generates: bool) -> AsyncIterator[None]:
        """Admits a request as `admit` does, and holds a stream slot of the tenant during the block. A request that
        `generates` also counts as a turn of this process.

        Raises what `admit` raises, RequestRateExceeded also when all slots are taken, and Unavailable if the process is
        overloaded."""
        turn = await self.shedder.begin(tenant) if generates else None
        try:
            slot = await self._take_slot(tenant, generates=generates) if self.has_limits else None
        except BaseException:
            if turn is not None:
                turn.end()
            raise

        def give_back() -> None:
            if turn is not None:
                turn.end()
            if slot is not None:
                self._give_back(tenant, slot)

        with StreamSlot(give_back, turn).occupy():
            yield

    async def _take_slot(self, tenant: str, *, generates: bool) -> str | None:
        """Admits a request. Returns the id of its stream slot; None if there is no limit of slots."""
        if not self._limits.streams:
            await self.admit(tenant, generates=generates)
            return None
        slot = self._ids.hex(24)
        hold = Hold((slot,), self._slot_ttl_ms, self._limits.streams)
        request = QuotaRequest(self._draws[generates], hold, self._settling.ended_slots(tenant))
        try:
            answer = await self._counts.take_quota(tenant, request)
        except BaseException:
            self._settling.end(tenant, slot)  # the store may have taken the slot before the call failed
            raise
        self._require(tenant, answer)
        self._settling.hold(tenant, slot)
        metrics.STREAM_SLOTS.of().add()
        return slot

    def _give_back(self, tenant: str, slot: str) -> None:
        metrics.STREAM_SLOTS.of().add(-1)
        self._settling.end(tenant, slot)

    def charge(self, tenant: str, tokens: int) -> None:
        """Charges the input and output tokens of a response that has ended."""
        if self.counts_tokens:
            self._settling.charge(tenant, tokens)
            if (levels := self._levels_by_tenant.get(tenant)) is not None:
                levels.draw(TOKENS, tokens)

    async def close(self) -> None:
        """Waits until the counter has all charges and all released slots."""
        await self._settling.close()

    def _require(self, tenant: str, answer: QuotaAnswer) -> None:
        self._update_levels(tenant, answer)
        if answer.shortage is not None:
            raise self._rejection(answer.shortage)

    def _charge_of(self, tokens: int) -> Draw:
        return _draw(TOKENS, self._limits.tokens_per_minute, amount=tokens)

    def _update_levels(self, tenant: str, answer: QuotaAnswer) -> None:
        levels = self._levels_by_tenant.get(tenant)
        if levels is not None:
            levels.update(answer.levels)

    def _rejection(self, shortage: Shortage) -> RequestRateExceeded | TokenRateExceeded:
        metrics.ADMISSION_REJECTED.of(shortage.bucket or "streams").add()
        if shortage.bucket is None:
            return RequestRateExceeded(
                f"Rate limit reached on responses in progress at once: Limit {self._limits.streams}. "
                "Please try again when one of them has ended.",
                retry_after_ms=STREAM_RETRY_MS,
            )
        wait_ms, is_of_tokens = shortage.retry_after_ms, shortage.bucket == TOKENS
        limit = self._limits.tokens_per_minute if is_of_tokens else self._limits.requests_per_minute
        message = (
            f"Rate limit reached on {shortage.bucket} per minute: Limit {limit}. "
            f"Please try again in {wait_ms / 1000:g}s."
        )
        error = TokenRateExceeded if is_of_tokens else RequestRateExceeded
        return error(message, retry_after_ms=wait_ms)


def _draws_of(limits: RateLimits, *, generates: bool) -> Sequence[Draw]:
    """The draws of a request. Tokens come first: if both limits are exceeded, the error names the tokens."""
    draws = []
    if limits.tokens_per_minute:
        draws.append(_draw(TOKENS, limits.tokens_per_minute, at_least=1 if generates else 0))
    if limits.requests_per_minute:
        draws.append(_draw(REQUESTS, limits.requests_per_minute, amount=1, at_least=1))
    return draws


def _draw(bucket: str, per_minute: int, *, amount: int = 0, at_least: int = 0) -> Draw:
    return Draw(bucket, amount, at_least, capacity=per_minute, per_minute=per_minute)
