"""Spending on the Redis engine. What becomes of buckets and places, lua/spend.lua says."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ports.spending import Hold, Spend, Spent
from antiphon_core.spending import Bucket, spent
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.calls import NONE, Argument
from antiphon_store.backends.redis.engine import Engine


class RedisSpending:
    """Implements `roles.spending.SpendingAtoms` for RedisBackend."""

    async def spend(self: Engine, tenant: str, spend: Spend) -> Spent:
        keys = self._keys.spending_keys(tenant)
        refused, *words = await self._run(scripts.SPEND, tenant, keys, _arguments(spend))
        buckets = {draw.name: _bucket(each) for draw, each in zip(spend.draws, words, strict=True) if each}
        return spent(spend.draws, buckets, None if refused.decode() == NONE else refused.decode())


def _arguments(spend: Spend) -> list[Argument]:
    hold = spend.hold or Hold((), 0)
    draws = [
        argument
        for draw in spend.draws
        for argument in (draw.name, *map(repr, (draw.amount, draw.at_least, draw.capacity, draw.per_minute)))
    ]
    counts = (len(spend.draws), len(hold.ids))
    return [limits.SPENDING_MEMORY_MS, hold.most, hold.ttl_ms, *counts, *draws, *hold.ids, *spend.release]


def _bucket(words: bytes) -> Bucket:
    level, capacity, per_minute, at_ms = words.split()
    return Bucket(float(level), float(capacity), float(per_minute), int(at_ms))
