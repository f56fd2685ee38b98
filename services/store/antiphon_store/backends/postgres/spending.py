"""The atom of `roles.spending`, one statement: spend_v1."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ports.spending import Hold, Spend, Spent
from antiphon_core.spending import Bucket, spent
from antiphon_store.backends.postgres.asking import Asking
from antiphon_store.backends.postgres.rows import Parameters


class PostgresSpending(Asking):
    """Implements `roles.spending.SpendingAtoms`."""

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        ((refused, levels, capacities, rates, at_ms),) = await self._run("spend", _parameters(tenant, spend))
        buckets = {
            draw.name: Bucket(level, capacity, rate, at_ms)
            for draw, level, capacity, rate in zip(spend.draws, levels, capacities, rates, strict=True)
            if level is not None
        }
        return spent(spend.draws, buckets, refused)


def _parameters(tenant: str, spend: Spend) -> Parameters:
    draws, hold = spend.draws, spend.hold or Hold((), 0)
    return {
        "tenant": tenant,
        "memory_ms": limits.SPENDING_MEMORY_MS,
        "names": [draw.name for draw in draws],
        "amounts": [float(draw.amount) for draw in draws],
        "at_least": [float(draw.at_least) for draw in draws],
        "capacities": [float(draw.capacity) for draw in draws],
        "rates": [float(draw.per_minute) for draw in draws],
        "held": list(hold.ids),
        "most": hold.most,
        "ttl_ms": hold.ttl_ms,
        "released": list(spend.release),
    }
