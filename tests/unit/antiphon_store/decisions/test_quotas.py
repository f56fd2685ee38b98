"""Quota requests in one row, one after the other. tests/unit/antiphon_core/test_quotas.py tests the buckets."""

from __future__ import annotations

from functools import partial

from antiphon_core import limits
from antiphon_core.ports.quotas import Draw, Hold, QuotaRequest
from antiphon_store.decisions import quotas
from antiphon_store.rows.model import Kind, Row
from tests.support.rows import NOW_MS, answered, decided, fields_of, pins, shown, view_of

QUOTA = (Kind.QUOTA, "")
ONE = QuotaRequest([Draw("requests", 1, 1, 2, 60)])
LATER = NOW_MS + 100


def test_concurrent_quota_requests_are_answered_in_order_and_written_once() -> None:
    view = view_of({QUOTA: None})
    answers = quotas.take_quota(view, [ONE, ONE, ONE])(())
    assert [each.levels[0].level for each in answers] == [1, 0, 0]
    assert [each.shortage is None for each in answers] == [True, True, False]
    assert shown(view.program()) == [("put", *QUOTA)]
    assert pins(view.program()) == {QUOTA}
    written = {"buckets": {"requests": [0.0, 2, 60, NOW_MS]}, "slots": {}}
    assert written.items() <= fields_of(view.program(), Kind.QUOTA).items()


def test_a_rejected_quota_request_changes_nothing() -> None:
    empty = Row({"v": 1, "buckets": {"requests": [0.0, 2, 60, NOW_MS]}, "slots": {}})
    (answer,) = answered(partial(quotas.take_quota, requests=[ONE]), {QUOTA: empty})
    assert answer.shortage is not None
    assert answer.shortage.retry_after_ms == 1000


def test_old_buckets_and_expired_slots_are_not_written_again() -> None:
    long_ago = NOW_MS - limits.QUOTA_MEMORY_MS
    before = {
        "buckets": {"old": [1.0, 1, 1, long_ago], "new": [1.0, 1, 1, NOW_MS]},
        "slots": {"a": NOW_MS, "b": LATER},
    }
    program = decided(
        partial(quotas.take_quota, requests=[QuotaRequest(hold=Hold(["c"], 50))]), {QUOTA: Row({"v": 1, **before})}
    )
    fields = fields_of(program, Kind.QUOTA)
    assert list(fields["buckets"]) == ["new"]
    assert fields["slots"] == {"b": LATER, "c": NOW_MS + 50}


def test_quotas_of_each_tenant_have_their_own_partition() -> None:
    assert quotas.partition_of("t") != quotas.partition_of("u")
