"""Validation of arguments about quotas: buckets and stream slots."""

from __future__ import annotations

import re
from collections.abc import Sequence

from antiphon_core import limits
from antiphon_core.ports.spending import Draw, Hold, Spend
from antiphon_store.rules.common import check_lease_ttl, check_range, invalid

_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{limits.SPEND_NAME_CHARS_MAX}}}")
UINT32_MAX = 2**32 - 1
UNITS_MIN = 1e-6  # rounding errors of sums hide smaller amounts
UNITS_MAX = 10**15  # above this, floating point does not count single units


def check_spend(spend: Spend, _field: str) -> None:
    check_range(len(spend.draws), 0, limits.SPEND_DRAWS_ITEMS_MAX, "draws")
    for index, draw in enumerate(spend.draws):
        _check_draw(draw, f"draws[{index}]")
    if len({draw.name for draw in spend.draws}) < len(spend.draws):
        raise invalid("draws", "'draws' names a bucket twice.")
    if spend.hold is not None:
        _check_hold(spend.hold)
        if not set(spend.hold.ids).isdisjoint(spend.release):
            raise invalid("release_ids", "'release_ids' names a slot that 'hold.ids' names, too.")
    _check_slots(spend.release, "release_ids", least=0)


def _check_draw(draw: Draw, field: str) -> None:
    _check_name(draw.name, f"{field}.name")
    for member in ("amount", "at_least", "capacity", "per_minute"):
        value = getattr(draw, member)
        if value and not UNITS_MIN <= value <= UNITS_MAX:
            problem = f"must be 0, or from {UNITS_MIN} to {UNITS_MAX}, but is {value}"
            raise invalid(f"{field}.{member}", f"'{field}.{member}' {problem}.")
    if bool(draw.capacity) != bool(draw.per_minute):
        raise invalid(f"{field}.per_minute", f"'{field}' must have both a capacity and a rate, or neither.")
    if draw.at_least > draw.capacity:
        raise invalid(f"{field}.at_least", f"'{field}.at_least' is more than the bucket can hold.")


def _check_hold(hold: Hold) -> None:
    _check_slots(hold.ids, "hold.ids", least=1)
    check_range(hold.most, 0, UINT32_MAX, "hold.most")
    check_lease_ttl(hold.ttl_ms, "hold.ttl_ms")


def _check_slots(ids: Sequence[str], field: str, *, least: int) -> None:
    check_range(len(ids), least, limits.SPEND_PLACES_ITEMS_MAX, field)
    for index, id_ in enumerate(ids):
        _check_name(id_, f"{field}[{index}]")
    if len(set(ids)) < len(ids):
        raise invalid(field, f"'{field}' names a slot twice.")


def _check_name(name: str, field: str) -> None:
    if not _NAME.fullmatch(name):
        longest = limits.SPEND_NAME_CHARS_MAX
        raise invalid(field, f"'{field}' must be 1 to {longest} letters, digits, dots, underscores and hyphens.")
