"""The effect of a request on buckets and stream slots. `antiphon_store.testing.quotas` tests all backends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import limits
from antiphon_core.ports.quotas import Draw, Hold, QuotaRequest, Shortage
from antiphon_core.quotas import MINUTE_MS, Bucket, LocalQuotas, TenantQuotas, answer_of

NOW_MS = 1_700_000_000_000
ONE = Draw("requests", amount=1, at_least=1, capacity=3, per_minute=3)


def test_a_clock_that_is_set_back_fills_nothing_twice() -> None:
    quotas = TenantQuotas()
    quotas.take(QuotaRequest([replace(ONE, amount=3)]), NOW_MS)
    for _ in range(3):
        quotas.take(QuotaRequest([replace(ONE, amount=0)]), NOW_MS - MINUTE_MS)
        (level,) = quotas.take(QuotaRequest([replace(ONE, amount=0, at_least=0)]), NOW_MS).levels
        assert level.level == 0
    (level,) = quotas.take(QuotaRequest([replace(ONE, amount=0)]), NOW_MS + MINUTE_MS).levels
    assert level.level == 3


def test_a_clock_that_ran_far_ahead_blocks_no_tenant_after_it_is_set_back() -> None:
    quotas, year_ms = TenantQuotas(), 365 * 24 * 3_600_000
    quotas.take(QuotaRequest([replace(ONE, amount=3)], Hold(["old"], 60_000, most=1)), NOW_MS + year_ms)
    answer = quotas.take(QuotaRequest([ONE], Hold(["new"], 60_000, most=1)), NOW_MS)
    assert answer.shortage is None
    assert quotas.slots == {"new": NOW_MS + 60_000}
    assert quotas.take(QuotaRequest([replace(ONE, amount=2, at_least=2)]), NOW_MS).shortage is None
    assert quotas.take(QuotaRequest([ONE]), NOW_MS).shortage == Shortage("requests", MINUTE_MS // 3)


@given(
    level=st.floats(-(10**9), 10**6),
    per_minute=st.floats(0.001, 10**9),
    at_least=st.integers(1, 10**6),
    elapsed_ms=st.lists(st.integers(0, 10**6), max_size=20),
)
def test_a_request_repeated_after_its_retry_delay_is_admitted(
    level: float, per_minute: float, at_least: int, elapsed_ms: list[int]
) -> None:
    draw = Draw("b", amount=1, at_least=at_least, capacity=10**6, per_minute=per_minute)
    quotas, now_ms = TenantQuotas({"b": Bucket(level, 10**6, per_minute, NOW_MS)}), NOW_MS
    for each in elapsed_ms:
        now_ms += each
        quotas.take(QuotaRequest([replace(draw, amount=0, at_least=0)]), now_ms)
    shortage = quotas.take(QuotaRequest([draw]), now_ms).shortage
    if shortage is not None:
        assert shortage.retry_after_ms > 0
        assert quotas.take(QuotaRequest([draw]), now_ms + shortage.retry_after_ms).shortage is None


def test_a_quota_answer_has_the_levels_and_the_shortage() -> None:
    buckets = {"a": Bucket(0, 3, 3, NOW_MS), "b": Bucket(-1, 60, 60, NOW_MS)}
    draws = [replace(ONE, name="a", at_least=0), replace(ONE, name="b")]
    assert [(level.name, level.full_in_ms) for level in answer_of(draws, buckets, None).levels] == [
        ("a", 60_000),
        ("b", 61_000),
    ]
    assert answer_of(draws, buckets, "b").shortage == Shortage("b", 2_000)
    assert answer_of(draws, buckets, "").shortage == Shortage(None)


def test_idle_tenants_without_debt_are_forgotten() -> None:
    tenants = LocalQuotas()
    tenants.take("debtor", QuotaRequest([replace(ONE, amount=100_000, at_least=0)]), NOW_MS)
    for number in range(20):
        tenants.take(f"old-{number}", QuotaRequest([ONE], Hold(["p"], 1_000)), NOW_MS)
    later_ms = NOW_MS + limits.QUOTA_MEMORY_MS + MINUTE_MS
    for number in range(30):
        tenants.take(f"new-{number}", QuotaRequest([ONE]), later_ms)
    assert "debtor" in tenants
    assert all(f"new-{number}" in tenants for number in range(30))
    assert not any(f"old-{number}" in tenants for number in range(20))


@pytest.mark.parametrize("hold", [None, Hold(["p"], 2 * limits.QUOTA_MEMORY_MS)])
def test_a_tenant_that_holds_a_stream_slot_is_not_idle(hold: Hold | None) -> None:
    quotas = TenantQuotas()
    quotas.take(QuotaRequest([ONE], hold), NOW_MS)
    assert not quotas.is_idle(NOW_MS)
    assert quotas.is_idle(NOW_MS + limits.QUOTA_MEMORY_MS) == (hold is None)


def test_a_tenant_has_a_bounded_number_of_buckets_and_slots() -> None:
    """Each request read and wrote all of them, for a day after the last draw."""
    quotas = TenantQuotas()
    for number in range(2 * limits.QUOTA_BUCKETS_ITEMS_MAX):
        quotas.take(QuotaRequest([Draw(f"b{number}", 1, 1, 9, 9), Draw("requests", 1, 0, 9, 9)]), NOW_MS + number)
    assert len(quotas.buckets) == limits.QUOTA_BUCKETS_ITEMS_MAX
    assert {"requests", f"b{number}"} < quotas.buckets.keys()
    for first in range(0, 2 * limits.QUOTA_HELD_ITEMS_MAX, 1000):
        quotas.take(QuotaRequest(hold=Hold([f"s{first + each}" for each in range(1000)], 1000 + first)), NOW_MS)
    assert len(quotas.slots) == limits.QUOTA_HELD_ITEMS_MAX
    assert min(quotas.slots.values()) > NOW_MS + 1000
