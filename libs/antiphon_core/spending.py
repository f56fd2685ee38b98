"""The rules of quotas: token buckets and stream slots of tenants, and how a spend changes them. Time is an argument.

A bucket fills steadily up to its capacity. Capacity and rate are those of the last draw that gave them, and the level
is cut to the capacity, so limits may change while the bucket is in use. A bucket that is full and was not used for
SPENDING_MEMORY_MS is forgotten, which bounds the number of buckets. A new bucket is full, too, so only draws that do
not give a capacity notice the difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from antiphon_core import limits
from antiphon_core.ports.spending import Draw, Hold, Level, Refusal, Spend, Spent

MINUTE_MS = 60_000
PLACES = ""  # stands for the stream slots where a bucket's name is expected
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
        return now_ms - self.at_ms >= limits.SPENDING_MEMORY_MS and self.level_at(now_ms) >= self.capacity

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


def answer_of(draws: Sequence[Draw], buckets: Mapping[str, Bucket], refused: str | None) -> Spent:
    """The answer to a spend. `refused` is the name of the bucket that has too little, or PLACES; None if all was
    done."""
    levels = tuple(
        Level(name, bucket.level, bucket.capacity, bucket.wait_ms(bucket.capacity)) for name, bucket in buckets.items()
    )
    if refused is None:
        return Spent(levels)
    if refused == PLACES:
        return Spent(levels, Refusal(None))
    (wait_ms,) = (buckets[draw.name].wait_ms(draw.at_least) for draw in draws if draw.name == refused)
    return Spent(levels, Refusal(refused, wait_ms))


@dataclass(slots=True)
class Account:
    """The quotas of one tenant: buckets by name, and the time until which each stream slot (`places`) is held."""

    buckets: dict[str, Bucket] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def spend(self, spend: Spend, now_ms: int) -> Spent:
        held = {id_: until for id_, until in self.places.items() if until > now_ms and id_ not in spend.release}
        hold = spend.hold or Hold((), 0)
        is_repeated = bool(hold.ids) and all(id_ in held for id_ in hold.ids)
        buckets = {
            draw.name: bucket
            for draw in spend.draws
            if (bucket := _bucket_at(self.buckets.get(draw.name), draw, now_ms)) is not None
        }
        if not is_repeated:
            refused = _refused(spend.draws, buckets, hold, held)
            if refused is not None:
                return answer_of(spend.draws, buckets, refused)
            for draw in spend.draws:
                if draw.name in buckets:
                    bucket = buckets[draw.name]
                    buckets[draw.name] = replace(bucket, level=bucket.level - draw.amount)
        self.buckets |= buckets
        self.places = held | {id_: max(held.get(id_, 0), now_ms + hold.ttl_ms) for id_ in hold.ids}
        return answer_of(spend.draws, buckets, None)

    def is_idle(self, now_ms: int) -> bool:
        """Whether no slot is held and all buckets are forgotten."""
        is_held = any(until > now_ms for until in self.places.values())
        return not is_held and all(bucket.is_forgotten(now_ms) for bucket in self.buckets.values())


class Accounts:
    """The quotas of all tenants, for a process that counts by itself."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}

    def spend(self, tenant: str, spend: Spend, now_ms: int) -> Spent:
        account = self._accounts.pop(tenant, None) or Account()
        self._forget_some(now_ms)
        self._accounts[tenant] = account
        return account.spend(spend, now_ms)

    def __contains__(self, tenant: object) -> bool:
        return tenant in self._accounts

    def _forget_some(self, now_ms: int) -> None:
        """Drops the next two accounts if they are idle, or moves them to the end. Each spend adds at most one account,
        so idle ones do not pile up."""
        for tenant in list(islice(self._accounts, 2)):
            account = self._accounts.pop(tenant)
            if not account.is_idle(now_ms):
                self._accounts[tenant] = account


def _refused(draws: Sequence[Draw], buckets: Mapping[str, Bucket], hold: Hold, held: Mapping[str, int]) -> str | None:
    for draw in draws:
        if draw.at_least and draw.name in buckets and buckets[draw.name].level < draw.at_least - TINY:
            return draw.name
    others = len(held.keys() - set(hold.ids))
    return PLACES if hold.most and hold.ids and others + len(hold.ids) > hold.most else None
