"""Quotas of a tenant: one volatile row, changed by the rules of `antiphon_core.quotas`.

Row QUOTA, in a partition of its own: `buckets` (name -> level, capacity, per minute, time of the level) and `slots`
(id of a stream slot -> its expiry).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from antiphon_core.ports.quotas import QuotaAnswer, QuotaRequest
from antiphon_core.quotas import Bucket, TenantQuotas
from antiphon_store.rows.model import QUOTA_TREE, Kind, Partition, Ref, Row
from antiphon_store.rows.view import Finish, View, answer

ROW = Ref(Kind.QUOTA, "")


def partition_of(tenant: str) -> Partition:
    return Partition(tenant, QUOTA_TREE)


def take_quota(view: View, requests: Sequence[QuotaRequest]) -> Finish[Sequence[QuotaAnswer]]:
    """Grants requests one after the other, each of them completely or not at all, and returns their answers."""
    found = _quotas_of(view.need(*ROW))
    answers = [found.take(each, view.now_ms) for each in requests]
    if any(each.shortage is None for each in answers):
        view.put(*ROW, _fields_of(found, view.now_ms))
    return answer(answers)


def _quotas_of(row: Row | None) -> TenantQuotas:
    if row is None:
        return TenantQuotas()
    buckets = {name: Bucket(*values) for name, values in row.fields["buckets"].items()}
    return TenantQuotas(buckets, dict(row.fields["slots"]))


def _fields_of(found: TenantQuotas, now_ms: int) -> dict[str, Any]:
    """The fields of the row, without idle buckets and expired slots."""
    return {
        "buckets": {name: list(astuple(each)) for name, each in found.buckets.items() if not each.is_forgotten(now_ms)},
        "slots": {id_: until for id_, until in found.slots.items() if until > now_ms},
    }
