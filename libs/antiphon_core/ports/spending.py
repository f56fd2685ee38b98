"""Quotas of tenants: units of buckets that fill with time, and stream slots that are held for a while.

The store counts for all edges and workers. The caller says how large a bucket is, so limits need to be known nowhere
else. A caller that does not know the size draws on the bucket as it was described last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw on one bucket. `amount` may be more than is there: that is a debt, which fills up first. `at_least` is how
    much must be there before; 0 means that the draw is never refused. The bucket holds `capacity` and fills at
    `per_minute`; both 0 mean: as it was described last, and if it never was, nothing is drawn."""

    name: str
    amount: float = 0.0
    at_least: float = 0.0
    capacity: float = 0.0
    per_minute: float = 0.0


@dataclass(frozen=True, slots=True)
class Hold:
    """Places to be held until `ttl_ms` from now, or for so much longer when they are held already. `most` is how many
    the tenant may hold with them; 0 means any number."""

    ids: Sequence[str]
    ttl_ms: int
    most: int = 0


@dataclass(frozen=True, slots=True)
class Spend:
    """Draws, places to hold, and places to give back before; places that nobody holds are given back already."""

    draws: Sequence[Draw] = ()
    hold: Hold | None = None
    release: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """A bucket as it is now; `level` is negative with debts. `full_in_ms` is how long it takes to fill up."""

    name: str
    level: float
    capacity: float
    full_in_ms: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """The quota that is used up: a bucket, or stream slots (None). `retry_after_ms`: until the bucket has enough; 0 for
    slots, as nobody knows when one is given back."""

    bucket: str | None
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Spent:
    """The buckets, in the order of the draws, without those that nobody described. With a refusal nothing changed."""

    levels: Sequence[Level] = ()
    refusal: Refusal | None = None


class Spending(Protocol):
    async def spend(self, tenant: str, spend: Spend) -> Spent:
        """All of it or nothing, in one step.

        A spend whose places are all held already is one that is asked for again: it draws nothing, and the places are
        held for longer. One without places can be counted twice when it is sent twice."""
