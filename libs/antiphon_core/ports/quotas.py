"""The port of quotas: token buckets of tenants, and stream slots that they hold for a time.

The store counts for all edges and workers. A draw brings the capacity and the rate of its bucket, so the store need not
know the limits. A caller that does not know them, such as a worker, draws with those of the last draw that did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw of `amount` units on one bucket. The level may become negative, and then has to fill up first. `at_least`
    is the level below which the draw is rejected; 0 means never. The bucket holds `capacity` units and fills at
    `per_minute`. Both 0 mean those of the last draw that gave them; without such a draw nothing is drawn."""

    name: str
    amount: float = 0.0
    at_least: float = 0.0
    capacity: float = 0.0
    per_minute: float = 0.0


@dataclass(frozen=True, slots=True)
class Hold:
    """Stream slots to hold until `ttl_ms` from now; those that are held already are extended. `most` is how many slots
    the tenant may hold in total; 0 means any number."""

    ids: Sequence[str]
    ttl_ms: int
    most: int = 0


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """Draws, stream slots to hold, and the ids of slots to release first. Ids that are not held are ignored."""

    draws: Sequence[Draw] = ()
    hold: Hold | None = None
    release: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """The current state of a bucket. `level` may be negative; `full_in_ms` is the time until the bucket is full."""

    name: str
    level: float
    capacity: float
    full_in_ms: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """The quota that is used up: the bucket of this name, or the stream slots (None). `retry_after_ms` is the time
    until the bucket has enough; 0 for slots, because the time of a release is unknown."""

    bucket: str | None
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class QuotaAnswer:
    """The buckets after a request, in the order of the draws, without those of unknown capacity. With a `shortage`
    nothing was changed."""

    levels: Sequence[Level] = ()
    shortage: Shortage | None = None


class Quotas(Protocol):
    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        """Draws, holds and releases in one transaction: all of it or nothing.

        A request whose slots are all held already is taken for a retry: it draws nothing and extends the slots. One
        without slots is counted twice if it is sent twice."""
