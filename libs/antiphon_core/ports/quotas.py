"""The port of quotas: token buckets of tenants, and stream slots that they hold for a time.

The store counts for all edges and workers. A draw brings the capacity and the rate of its bucket, so the store need not
know the limits. A caller that does not know them, such as a worker, draws with those of the last draw that did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from antiphon_core import limits
from antiphon_core.ports.checks import LeaseTtlMs, Tenant, check_range, count_within, invalid, name_up_to, within

UINT32_MAX = 2**32 - 1
UNITS_MIN = 1e-6  # rounding errors of sums hide smaller amounts
UNITS_MAX = 10**15  # above this, floating point does not count single units


def _check_units(value: float, field: str) -> None:
    if value and not UNITS_MIN <= value <= UNITS_MAX:
        raise invalid(field, f"'{field}' must be 0, or from {UNITS_MIN} to {UNITS_MAX}, but is {value}.")


def _check_unique(ids: Any, field: str) -> None:
    if len(set(ids)) < len(ids):
        raise invalid(field, f"'{field}' has a name twice.")


check_quota_name = name_up_to(limits.QUOTA_NAME_CHARS_MAX)
QuotaName = Annotated[str, check_quota_name]
Units = Annotated[float, _check_units]


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw of `amount` units on one bucket. The level may become negative, and then has to fill up first. `at_least`
    is the level below which the draw is rejected; 0 means never. The bucket holds `capacity` units and fills at
    `per_minute`. Both 0 mean those of the last draw that gave them; without such a draw nothing is drawn."""

    name: QuotaName
    amount: Units = 0.0
    at_least: Units = 0.0
    capacity: Units = 0.0
    per_minute: Units = 0.0

    def check(self, field: str) -> None:
        if bool(self.capacity) != bool(self.per_minute):
            raise invalid(f"{field}.per_minute", f"'{field}' must have both a capacity and a rate, or neither.")
        if self.at_least > self.capacity:
            raise invalid(f"{field}.at_least", f"'{field}.at_least' is more than the bucket can hold.")


@dataclass(frozen=True, slots=True)
class Hold:
    """Stream slots to hold until `ttl_ms` from now; those that are held already are extended. `most` is how many slots
    the tenant may hold in total; 0 means any number."""

    ids: Annotated[Sequence[QuotaName], count_within(1, limits.QUOTA_SLOTS_ITEMS_MAX)]
    ttl_ms: LeaseTtlMs
    most: Annotated[int, within(0, UINT32_MAX)] = 0


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """Draws, stream slots to hold, and the ids of slots to release first. Ids that are not held are ignored."""

    draws: Annotated[Sequence[Draw], count_within(0, limits.QUOTA_DRAWS_ITEMS_MAX)] = ()
    hold: Hold | None = None
    release: Sequence[str] = ()

    def check(self, _field: str) -> None:
        """Names are unique. The slots to release are checked here, because errors name them `release_ids`."""
        _check_unique([draw.name for draw in self.draws], "draws")
        held = self.hold.ids if self.hold is not None else ()
        _check_unique(held, "hold.ids")
        check_range(len(self.release), "release_ids", 0, limits.QUOTA_SLOTS_ITEMS_MAX)
        for index, name in enumerate(self.release):
            check_quota_name(name, f"release_ids[{index}]")
        _check_unique(self.release, "release_ids")
        if not set(held).isdisjoint(self.release):
            raise invalid("release_ids", "'release_ids' names a slot that 'hold.ids' names, too.")


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
    async def take_quota(self, tenant: Tenant, quota_request: QuotaRequest) -> QuotaAnswer:
        """Draws, holds and releases in one transaction: all of it or nothing.

        A request whose slots are all held already is taken for a retry: it draws nothing and extends the slots. One
        without slots is counted twice if it is sent twice."""
