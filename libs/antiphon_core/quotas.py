"""The rules of quotas: token buckets and stream slots of tenants, and how a request changes them. Time is an argument.

A bucket fills steadily up to its capacity. Capacity and rate are those of the last draw that gave them, and the level
is cut to the capacity, so limits may change while the bucket is in use. A bucket that is full and was not used for
QUOTA_MEMORY_MS is forgotten, which bounds the number of buckets. A new bucket is full, too, so only draws that do
not give a capacity notice the difference.

After a clock that ran ahead is set back, stored times are in the future: a bucket would not fill, and a slot would not
expire, until the clock reaches these times. So buckets and slots that are too far in the future are forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import TypeVar

from antiphon_core import limits
from antiphon_core.ports.quotas import Draw, Hold, Level, QuotaAnswer, QuotaRequest, Shortage

_Item = TypeVar("_Item")

MINUTE_MS = 60_000
SLOTS = ""  # stands for the stream slots where a bucket's name is expected
CLOCK_STEP_MS_MAX = 5 * MINUTE_MS  # how far clocks differ, or are set back, without buckets being forgotten
TINY = 1e-6  # of a unit: the rounding error of levels that were added up in floating point


@dataclass(frozen=True, slots=True)
class Bucket:
    """The state of a bucket at the time `at_ms`."""

    level: float
    capacity: float
    per_minute: float
    at_ms: int

    def level_at(self, now_ms: int) -> float:
        elapsed_ms = max(0, now_ms - self.at_ms)
        return min(self.capacity, self.level + elapsed_ms * self.per_minute / MINUTE_MS)

    def is_forgotten(self, now_ms: int) -> bool:
        is_idle = now_ms - self.at_ms >= limits.QUOTA_MEMORY_MS and self.level_at(now_ms) >= self.capacity
        return is_idle or self.at_ms - now_ms > CLOCK_STEP_MS_MAX

    def wait_ms(self, level: float) -> int:
        """The time from `at_ms` until the bucket has this level, with half the tolerance of TINY: a draw that is
        retried then succeeds."""
        return max(0, math.ceil((level - TINY / 2 - self.level) * MINUTE_MS / self.per_minute))


def _bucket_at(bucket: Bucket | None, draw: Draw, now_ms: int) -> Bucket | None:
    """The bucket at `now_ms`, with the capacity and rate of the draw, if it gives them; None if they are unknown."""
    if bucket is None or bucket.is_forgotten(now_ms):
        return Bucket(draw.capacity, draw.capacity, draw.per_minute, now_ms) if draw.capacity else None
    capacity, per_minute = (draw.capacity, draw.per_minute) if draw.capacity else (bucket.capacity, bucket.per_minute)
    return Bucket(min(bucket.level_at(now_ms), capacity), capacity, per_minute, max(now_ms, bucket.at_ms))


def answer_of(draws: Sequence[Draw], buckets: Mapping[str, Bucket], used_up: str | None) -> QuotaAnswer:
    """The answer to a request. `used_up` is the name of the bucket that has too little, or SLOTS; None if all was
    done."""
    levels = tuple(
        Level(name, bucket.level, bucket.capacity, bucket.wait_ms(bucket.capacity)) for name, bucket in buckets.items()
    )
    if used_up is None:
        return QuotaAnswer(levels)
    if used_up == SLOTS:
        return QuotaAnswer(levels, Shortage(None))
    (wait_ms,) = (buckets[draw.name].wait_ms(draw.at_least) for draw in draws if draw.name == used_up)
    return QuotaAnswer(levels, Shortage(used_up, wait_ms))


@dataclass(slots=True)
class TenantQuotas:
    """The quotas of one tenant: buckets by name, and the time until which each stream slot is held."""

    buckets: dict[str, Bucket] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)

    def take(self, request: QuotaRequest, now_ms: int) -> QuotaAnswer:
        latest_ms = now_ms + limits.LEASE_TTL_MS_MAX + CLOCK_STEP_MS_MAX
        held = {
            id_: until
            for id_, until in self.slots.items()
            if now_ms < until <= latest_ms and id_ not in request.release
        }
        hold = request.hold or Hold((), 0)
        is_repeated = bool(hold.ids) and all(id_ in held for id_ in hold.ids)
        buckets = {
            draw.name: bucket
            for draw in request.draws
            if (bucket := _bucket_at(self.buckets.get(draw.name), draw, now_ms)) is not None
        }
        if not is_repeated:
            used_up = _used_up(request.draws, buckets, hold, held)
            if used_up is not None:
                return answer_of(request.draws, buckets, used_up)
            for draw in request.draws:
                if draw.name in buckets:
                    bucket = buckets[draw.name]
                    buckets[draw.name] = replace(bucket, level=bucket.level - draw.amount)
        self.buckets = _newest(self.buckets | buckets, limits.QUOTA_BUCKETS_ITEMS_MAX, by=attrgetter("at_ms"))
        held |= {id_: max(held.get(id_, 0), now_ms + hold.ttl_ms) for id_ in hold.ids}
        self.slots = _newest(held, limits.QUOTA_HELD_ITEMS_MAX, by=int)
        return answer_of(request.draws, buckets, None)

    def is_idle(self, now_ms: int) -> bool:
        """Whether no slot is held and all buckets are forgotten."""
        is_held = any(until > now_ms for until in self.slots.values())
        return not is_held and all(bucket.is_forgotten(now_ms) for bucket in self.buckets.values())


class LocalQuotas:
    """The quotas of all tenants, for a process that counts by itself."""

    def __init__(self) -> None:
        self._tenants: dict[str, TenantQuotas] = {}

    def take(self, tenant: str, request: QuotaRequest, now_ms: int) -> QuotaAnswer:
        quotas = self._tenants.pop(tenant, None) or TenantQuotas()
        self._forget_some(now_ms)
        self._tenants[tenant] = quotas
        return quotas.take(request, now_ms)

    def __contains__(self, tenant: object) -> bool:
        return tenant in self._tenants

    def _forget_some(self, now_ms: int) -> None:
        """Drops the next two tenants if they are idle, or moves them to the end. Each request adds at most one,
        so idle ones do not pile up."""
        for tenant in list(islice(self._tenants, 2)):
            quotas = self._tenants.pop(tenant)
            if not quotas.is_idle(now_ms):
                self._tenants[tenant] = quotas


def _newest(named: dict[str, _Item], most: int, *, by: Callable[[_Item], int]) -> dict[str, _Item]:
    """The items with the latest times. All of them are written with each request, so 48,000 buckets, each drawn from
    once, made a megabyte of every request of their tenant for a day."""
    if len(named) <= most:
        return named
    return dict(sorted(named.items(), key=lambda item: by(item[1]))[-most:])


def _used_up(draws: Sequence[Draw], buckets: Mapping[str, Bucket], hold: Hold, held: Mapping[str, int]) -> str | None:
    for draw in draws:
        if draw.at_least and draw.name in buckets and buckets[draw.name].level < draw.at_least - TINY:
            return draw.name
    others = len(held.keys() - set(hold.ids))
    return SLOTS if hold.most and hold.ids and others + len(hold.ids) > hold.most else None
