"""Quotas of a tenant: one volatile row, changed by the rules of `antiphon_core.spending`.

Row QUOTA, in a partition of its own: `buckets` (name -> level, capacity, per minute, time of the level) and `places`
(id of a stream slot -> its expiry).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from antiphon_core.ports.spending import Spend, Spent
from antiphon_core.spending import Account, Bucket
from antiphon_store.rows.model import QUOTA_TREE, Kind, Partition, Ref, Row
from antiphon_store.rows.view import Finish, View, answer

ROW = Ref(Kind.QUOTA, "")


def partition_of(tenant: str) -> Partition:
    return Partition(tenant, QUOTA_TREE)


def spend(view: View, spends: Sequence[Spend]) -> Finish[Sequence[Spent]]:
    """Does spends one after the other, each of them completely or not at all, and returns their answers."""
    account = _account_of(view.need(*ROW))
    answers = [account.spend(each, view.now_ms) for each in spends]
    if any(each.refusal is None for each in answers):
        view.put(*ROW, _fields_of(account, view.now_ms))
    return answer(answers)


def _account_of(row: Row | None) -> Account:
    if row is None:
        return Account()
    buckets = {name: Bucket(*values) for name, values in row.fields["buckets"].items()}
    return Account(buckets, dict(row.fields["places"]))


def _fields_of(account: Account, now_ms: int) -> dict[str, Any]:
    """The fields of the row, without idle buckets and expired slots."""
    return {
        "buckets": {
            name: list(astuple(each)) for name, each in account.buckets.items() if not each.is_forgotten(now_ms)
        },
        "places": {id_: until for id_, until in account.places.items() if until > now_ms},
    }
