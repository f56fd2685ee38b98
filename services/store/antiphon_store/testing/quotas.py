"""Quotas: buckets that fill by the store's clock, stream slots that expire, and atomic requests."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.quotas import UNITS_MAX, Draw, Hold, Level, QuotaAnswer, QuotaRequest, Quotas, Shortage
from antiphon_store.testing.subject import Subject

TTL_MS = 500
AT_ONCE = 50
HELD = Hold(("a",), TTL_MS)

TWENTY = Draw("requests", amount=1, at_least=1, capacity=20, per_minute=20)
UNDESCRIBED = Draw("requests", amount=5)


def about(units: float) -> float:
    """Equal within the rounding errors of floating point."""
    return cast("float", pytest.approx(units))


async def take(
    subject: Subject,
    *draws: Draw,
    hold: Hold | None = None,
    release: Sequence[str] = (),
    at: object = None,
    tenant: str | None = None,
) -> QuotaAnswer:
    """Takes quota with the first client, or with the client `at`."""
    store = cast("Quotas", at or subject.store)
    return await store.take_quota(tenant or subject.tenant, QuotaRequest(draws, hold, release))


async def level(subject: Subject, draw: Draw = TWENTY) -> float:
    """The current level of the bucket."""
    (found,) = (await take(subject, replace(draw, amount=0, at_least=0))).levels
    return found.level


async def holds(subject: Subject, *ids: str, most: int = 0, ttl_ms: int = TTL_MS) -> bool:
    """Holds slots. False: there were not enough."""
    return (await take(subject, hold=Hold(ids, ttl_ms, most))).shortage is None


class QuotaSuite:
    async def test_a_new_bucket_is_full_and_loses_the_drawn_amount(self, subject: Subject) -> None:
        answer = await take(subject, TWENTY, Draw("tokens", capacity=600, per_minute=600))
        assert answer.shortage is None
        requests, tokens = answer.levels
        assert requests == Level("requests", about(19), 20, 3_000)
        assert tokens == Level("tokens", about(600), 600, 0)

    async def test_a_rejected_draw_has_the_time_until_a_retry(self, subject: Subject) -> None:
        for _ in range(20):
            assert (await take(subject, TWENTY)).shortage is None
        answer = await take(subject, TWENTY)
        assert answer == QuotaAnswer((Level("requests", about(0), 20, 60_000),), Shortage("requests", 3_000))
        await subject.elapse(2_999)
        assert (await take(subject, TWENTY)).shortage == Shortage("requests", 1)
        await subject.elapse(1)
        assert (await take(subject, TWENTY)).shortage is None
        assert (await take(subject, TWENTY)).shortage is not None

    async def test_a_bucket_fills_up_to_its_capacity(self, subject: Subject) -> None:
        await take(subject, replace(TWENTY, amount=15))
        await subject.elapse(30_000)
        assert await level(subject) == about(15)
        await subject.elapse(3_600_000)
        assert await level(subject) == about(20)

    async def test_a_bucket_in_debt_rejects_draws_until_it_has_filled(self, subject: Subject) -> None:
        assert (await take(subject, replace(TWENTY, amount=30))).shortage is None
        assert await level(subject) == about(-10)
        assert (await take(subject, TWENTY)).shortage == Shortage("requests", 33_000)
        assert (await take(subject, replace(TWENTY, amount=5, at_least=0))).shortage is None
        assert await level(subject) == about(-15)

    async def test_a_changed_limit_applies_to_the_next_draw(self, subject: Subject) -> None:
        await take(subject, TWENTY)
        smaller = replace(TWENTY, capacity=10, per_minute=10)
        assert await level(subject, smaller) == about(10)
        larger = replace(TWENTY, capacity=100, per_minute=60)
        assert await level(subject, larger) == about(10)
        await subject.elapse(5_000)
        assert await level(subject, larger) == about(15)

    async def test_a_bucket_with_a_fractional_rate_fills(self, subject: Subject) -> None:
        seldom = Draw("seldom", amount=1, at_least=1, capacity=1, per_minute=1 / 3)
        assert (await take(subject, seldom)).shortage is None
        assert (await take(subject, seldom)).shortage == Shortage("seldom", 180_000)
        await subject.elapse(180_000)
        assert (await take(subject, seldom)).shortage is None

    async def test_a_draw_without_limits_uses_those_of_the_last_draw(self, subject: Subject) -> None:
        assert await take(subject, UNDESCRIBED) == QuotaAnswer()
        await take(subject, TWENTY)
        answer = await take(subject, UNDESCRIBED, Draw("tokens", amount=1))
        assert answer == QuotaAnswer((Level("requests", about(14), 20, 18_000),))
        await take(subject, replace(TWENTY, amount=0, capacity=40, per_minute=40))
        await subject.elapse(60_000)
        (found,) = (await take(subject, UNDESCRIBED)).levels
        assert (found.level, found.capacity) == (about(35), 40)

    async def test_an_idle_bucket_is_remembered_for_a_day(self, subject: Subject) -> None:
        await take(subject, TWENTY)
        await subject.elapse(limits.QUOTA_MEMORY_MS - 1)
        assert [found.level for found in (await take(subject, UNDESCRIBED)).levels] == [about(15)]
        await subject.elapse(limits.QUOTA_MEMORY_MS)
        assert await take(subject, UNDESCRIBED) == QuotaAnswer()
        assert await level(subject) == about(20)

    async def test_a_bucket_in_debt_is_remembered_longer_than_a_day(self, subject: Subject) -> None:
        await take(subject, Draw("slow", amount=10_001, capacity=1, per_minute=1))
        await subject.elapse(2 * limits.QUOTA_MEMORY_MS)
        (found,) = (await take(subject, Draw("slow"))).levels
        assert found.level == about(1 - 10_001 + 2 * 1440)

    async def test_a_rejected_quota_request_changes_nothing(self, subject: Subject) -> None:
        assert await holds(subject, "a")
        empty = Draw("tokens", at_least=1, capacity=1, per_minute=1)
        await take(subject, replace(empty, amount=1))
        answer = await take(subject, TWENTY, empty, hold=Hold(("b",), TTL_MS), release=["a"])
        assert answer.shortage == Shortage("tokens", 60_000)
        assert [found.name for found in answer.levels] == ["requests", "tokens"]
        assert await level(subject) == about(20)
        assert not await holds(subject, "c", most=1)
        assert await holds(subject, "c", most=2)

    async def test_an_empty_quota_request_succeeds(self, subject: Subject) -> None:
        assert await take(subject) == QuotaAnswer()

    async def test_a_quota_request_at_every_limit_succeeds(self, subject: Subject) -> None:
        draws = [replace(TWENTY, name=f"b{n}") for n in range(limits.QUOTA_DRAWS_ITEMS_MAX)]
        largest = replace(TWENTY, name=LONG[1:], amount=UNITS_MAX, capacity=UNITS_MAX)
        hold = Hold([LONG[1:], *MANY[2:]], limits.LEASE_TTL_MS_MAX)
        answer = await take(subject, *draws[1:], largest, hold=hold, release=MANY[:1])
        assert (len(answer.levels), answer.shortage) == (len(draws), None)
        assert not await holds(subject, "another", most=limits.QUOTA_SLOTS_ITEMS_MAX)
        assert (await take(subject, release=MANY[1:])).shortage is None
        assert await holds(subject, "another", most=2)

    async def test_of_concurrent_draws_only_the_capacity_succeeds(self, subject: Subject) -> None:
        answers = await asyncio.gather(*(take(subject, TWENTY) for _ in range(AT_ONCE)))
        assert sum(answer.shortage is None for answer in answers) == 20
        assert await level(subject) == about(0)

    async def test_tenants_share_no_buckets_and_no_stream_slots(self, subject: Subject) -> None:
        await take(subject, replace(TWENTY, amount=20), hold=Hold(("a",), TTL_MS, most=1))
        other = subject.tenant + "-other"
        assert (await take(subject, UNDESCRIBED, tenant=other)).levels == ()
        answer = await take(subject, TWENTY, hold=Hold(("b",), TTL_MS, most=1), tenant=other)
        assert answer == QuotaAnswer((Level("requests", about(19), 20, 3_000),))
        await take(subject, release=["a"], tenant=other)
        assert not await holds(subject, "b", most=1)


class StreamSlotSuite:
    async def test_a_hold_over_the_slot_limit_is_rejected(self, subject: Subject) -> None:
        assert await holds(subject, "a", most=2)
        assert await holds(subject, "b", most=2)
        assert (await take(subject, TWENTY, hold=Hold(("c",), TTL_MS, most=2))).shortage == Shortage(None)
        assert await level(subject) == about(20)
        assert await holds(subject, "c")

    async def test_a_slot_released_twice_frees_one_slot(self, subject: Subject) -> None:
        assert await holds(subject, "a", "b", most=2)
        for _ in range(2):
            assert (await take(subject, release=["a", "unknown"])).shortage is None
        assert await holds(subject, "c", most=2)
        assert not await holds(subject, "d", most=2)

    async def test_slots_are_released_before_others_are_held(self, subject: Subject) -> None:
        assert await holds(subject, "a", most=1)
        assert (await take(subject, hold=Hold(("b",), TTL_MS, most=1), release=["a"])).shortage is None
        assert not await holds(subject, "a", most=1)

    async def test_a_repeated_hold_counts_once_and_draws_nothing(self, subject: Subject) -> None:
        for _ in range(3):
            answer = await take(subject, TWENTY, hold=Hold(("a",), TTL_MS, most=1))
            assert answer == QuotaAnswer((Level("requests", about(19), 20, 3_000),))
        await take(subject, replace(TWENTY, amount=19))
        assert (await take(subject, TWENTY, hold=Hold(("a",), TTL_MS, most=1))).shortage is None
        assert (await take(subject, TWENTY, hold=Hold(("a", "b"), TTL_MS))).shortage == Shortage("requests", 3_000)

    async def test_slots_expire(self, subject: Subject) -> None:
        assert await holds(subject, "a", "b", most=2)
        await subject.elapse(TTL_MS - 1)
        assert not await holds(subject, "c", most=2)
        await subject.elapse(1)
        assert await holds(subject, "c", most=1)
        assert (await take(subject, TWENTY, hold=HELD)).levels[0].level == about(19)

    async def test_a_repeated_hold_extends_slots(self, subject: Subject) -> None:
        assert await holds(subject, "a", "b")
        await subject.elapse(TTL_MS // 2)
        assert await holds(subject, "a", ttl_ms=TTL_MS)
        assert await holds(subject, "b", ttl_ms=100)
        await subject.elapse(TTL_MS // 2)
        assert await holds(subject, "c", most=2)
        assert not await holds(subject, "d", most=2)

    async def test_held_slots_are_extended_over_a_lower_limit(self, subject: Subject) -> None:
        assert await holds(subject, "a", "b", "c")
        assert await holds(subject, "a", "b", "c", most=2)
        assert not await holds(subject, "d", most=2)

    async def test_concurrent_holds_do_not_exceed_the_slot_limit(self, subject: Subject) -> None:
        outcomes = await asyncio.gather(*(holds(subject, f"p{number}", most=20) for number in range(AT_ONCE)))
        assert sum(outcomes) == 20


class SharedQuotaSuite:
    async def test_two_clients_draw_on_the_same_bucket(self, subject: Subject) -> None:
        clients = (subject.store, subject.peer)
        answers = await asyncio.gather(*(take(subject, TWENTY, at=clients[n % 2]) for n in range(AT_ONCE)))
        assert sum(answer.shortage is None for answer in answers) == 20
        (found,) = (await take(subject, UNDESCRIBED, at=subject.peer)).levels
        assert found.level == about(-5)

    async def test_two_clients_hold_and_release_the_same_slots(self, subject: Subject) -> None:
        assert await holds(subject, "a", most=1)
        hold = Hold(("b",), TTL_MS, most=1)
        assert (await take(subject, hold=hold, at=subject.peer)).shortage == Shortage(None)
        await take(subject, release=["a"], at=subject.peer)
        assert await holds(subject, "b", most=1)


LONG = "x" * (limits.QUOTA_NAME_CHARS_MAX + 1)
MANY = [f"p{number}" for number in range(limits.QUOTA_SLOTS_ITEMS_MAX + 1)]
BAD_CALLS: list[tuple[str, QuotaRequest]] = [
    ("draws", QuotaRequest([replace(TWENTY, name=f"b{n}") for n in range(limits.QUOTA_DRAWS_ITEMS_MAX + 1)])),
    ("draws", QuotaRequest([TWENTY, TWENTY])),
    ("draws[0].name", QuotaRequest([replace(TWENTY, name="")])),
    ("draws[1].name", QuotaRequest([TWENTY, replace(TWENTY, name="two words")])),
    ("draws[0].name", QuotaRequest([replace(TWENTY, name=LONG)])),
    ("draws[0].amount", QuotaRequest([replace(TWENTY, amount=-1)])),
    ("draws[0].amount", QuotaRequest([replace(TWENTY, amount=float("nan"))])),
    ("draws[0].capacity", QuotaRequest([replace(TWENTY, capacity=float("inf"))])),
    ("draws[0].capacity", QuotaRequest([replace(TWENTY, capacity=UNITS_MAX * 2)])),
    ("draws[0].per_minute", QuotaRequest([replace(TWENTY, per_minute=0)])),
    ("draws[0].per_minute", QuotaRequest([replace(TWENTY, per_minute=1e-300)])),
    ("draws[0].per_minute", QuotaRequest([replace(TWENTY, capacity=0, at_least=0)])),
    ("draws[0].at_least", QuotaRequest([replace(TWENTY, at_least=21)])),
    ("draws[0].at_least", QuotaRequest([replace(UNDESCRIBED, at_least=1)])),
    ("hold.ids", QuotaRequest(hold=Hold((), TTL_MS))),
    ("hold.ids", QuotaRequest(hold=Hold(MANY, TTL_MS))),
    ("hold.ids", QuotaRequest(hold=Hold(("a", "a"), TTL_MS))),
    ("hold.ids[0]", QuotaRequest(hold=Hold(("ü",), TTL_MS))),
    ("hold.most", QuotaRequest(hold=replace(HELD, most=-1))),
    ("hold.ttl_ms", QuotaRequest(hold=replace(HELD, ttl_ms=limits.LEASE_TTL_MS_MIN - 1))),
    ("hold.ttl_ms", QuotaRequest(hold=replace(HELD, ttl_ms=limits.LEASE_TTL_MS_MAX + 1))),
    ("release_ids", QuotaRequest(release=MANY)),
    ("release_ids", QuotaRequest(release=["a", "a"])),
    ("release_ids", QuotaRequest(hold=HELD, release=["a"])),
    ("release_ids[0]", QuotaRequest(release=[LONG])),
]


class QuotaArgumentSuite:
    @pytest.mark.parametrize(("field", "wrong"), BAD_CALLS)
    async def test_an_invalid_argument_is_rejected_with_its_field(
        self, subject: Subject, field: str, wrong: QuotaRequest
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await cast("Quotas", subject.store).take_quota(subject.tenant, wrong)
        assert caught.value.field == field

    async def test_an_invalid_tenant_is_rejected(self, subject: Subject) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await take(subject, TWENTY, tenant="two words")
        assert caught.value.field == "tenant"
