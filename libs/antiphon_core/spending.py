"""Buckets and places of tenants: what becomes of them with time, and with each spend. Pure: time is an argument.

A bucket fills steadily up to its capacity. Capacity and rate are those of whoever drew on it last, and its level is
clipped to them, so limits may change while it is in use. A bucket that is full and was not used for
SPENDING_MEMORY_MS is forgotten, and so nothing piles up; as a new one is full, only a draw that does not describe it
can tell.

Engines that keep buckets elsewhere do the same in their own words, and compose their answers here: `spent`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from antiphon_core import limits
from antiphon_core.ports.spending import Draw, Hold, Level, Refusal, Spend, Spent

MINUTE_MS = 60_000
PLACES = ""  # in place of a bucket's name: it was the places that were refused
TINY = 1e-6  # of a unit: what adding up times in floating point may lose


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket as it was at `at_ms`."""

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
        """How long after `at_ms` it holds so much, to half of what may be lost: who comes back then is let through."""
        return max(0, math.ceil((level - TINY / 2 - self.level) * MINUTE_MS / self.per_minute))


def described(bucket: Bucket | None, draw: Draw, now_ms: int) -> Bucket | None:
    """The bucket as of now and as the draw describes it; None when nobody ever did."""
    if bucket is None or bucket.is_forgotten(now_ms):
        return Bucket(draw.capacity, draw.capacity, draw.per_minute, now_ms) if draw.capacity else None
    capacity, per_minute = (draw.capacity, draw.per_minute) if draw.capacity else (bucket.capacity, bucket.per_minute)
    return Bucket(min(bucket.level_at(now_ms), capacity), capacity, per_minute, max(now_ms, bucket.at_ms))


def spent(draws: Sequence[Draw], buckets: Mapping[str, Bucket], refused: str | None) -> Spent:
    """The answer. `refused` is the name of a bucket that had too little, or PLACES."""
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
    """The quota state of one tenant: buckets by their names, and until when its stream slots are held."""

    buckets: dict[str, Bucket] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def spend(self, spend: Spend, now_ms: int) -> Spent:
        held = {id_: until for id_, until in self.places.items() if until > now_ms and id_ not in spend.release}
        hold = spend.hold or Hold((), 0)
        is_repeated = bool(hold.ids) and all(id_ in held for id_ in hold.ids)
        buckets = {
            draw.name: bucket
            for draw in spend.draws
            if (bucket := described(self.buckets.get(draw.name), draw, now_ms)) is not None
        }
        if not is_repeated:
            refused = _refused(spend.draws, buckets, hold, held)
            if refused is not None:
                return spent(spend.draws, buckets, refused)
            for draw in spend.draws:
                if draw.name in buckets:
                    bucket = buckets[draw.name]
                    buckets[draw.name] = replace(bucket, level=bucket.level - draw.amount)
        self.buckets |= buckets
        self.places = held | {id_: max(held.get(id_, 0), now_ms + hold.ttl_ms) for id_ in hold.ids}
        return spent(spend.draws, buckets, None)

    def is_idle(self, now_ms: int) -> bool:
        """Whether there is nothing to remember."""
        is_held = any(until > now_ms for until in self.places.values())
        return not is_held and all(bucket.is_forgotten(now_ms) for bucket in self.buckets.values())


class Accounts:
    """The accounts of all tenants that one process counts for."""

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
        """Looks at the next two, and lets them go if they are idle: more goes than comes. Others stand last then."""
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
